"""Stops in the debugger in its second step."""

import os

import torch
import torch.distributed as dist

dist.init_process_group("nccl")
device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
torch.cuda.set_device(device)
layer = torch.nn.Linear(64, 64).to(device)
optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
for step in range(4):
    layer(torch.ones(8, 64, device=device)).sum().backward()
    for parameter in layer.parameters():
        dist.all_reduce(parameter.grad)
    optimizer.step()
    optimizer.zero_grad()
    if step == 1:
        breakpoint()
dist.destroy_process_group()
