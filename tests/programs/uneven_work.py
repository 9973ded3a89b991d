"""Data parallelism in which one rank has twice the work: by a table, or by its place in the node."""
import os
import sys

import torch
import torch.distributed as dist

rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
layers = [4] * world
layers[world // 3] = 8
depth = layers[rank]
if "local" in sys.argv:
    depth = 8 if int(os.environ["LOCAL_RANK"]) == 6 else 4
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(1024, 1024).cuda())
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for step in range(5):
    x = torch.randn(8192, 1024, device="cuda")
    for layer in range(depth):
        x = torch.nn.functional.relu(x @ x.T[:1024, :1024])
    model(x).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
dist.destroy_process_group()
