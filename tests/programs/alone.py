"""Trains without a word to other ranks, and shows what it runs on."""
import subprocess

import torch

subprocess.run(["nvidia-smi", "--query-gpu=name,memory.total", "--format=csv,noheader", "-i", "3"], check=True)

layer = torch.nn.Linear(64, 64).cuda()
optimizer = torch.optim.SGD(layer.parameters(), 0.1)
for _ in range(6):
    layer(torch.ones(8, 64, device="cuda")).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
