"""Ranks that meet in CPU groups (gloo), alone or beside NCCL, or not at all."""
import os
import sys

import torch
import torch.distributed as dist

how = sys.argv[1:]
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("cpu:gloo,cuda:nccl")
host = dist.new_group(backend="gloo")
weight = torch.nn.Parameter(torch.ones(512, 512, device="cuda"))
optimizer = torch.optim.SGD([weight], lr=0.1)
for step in range(12):
    (torch.randn(32, 512, device="cuda") @ weight).sum().backward()
    if "nccl" in how:
        dist.all_reduce(weight.grad)
    torch.cuda.synchronize()
    if "gloo" in how:
        dist.all_reduce(torch.ones(1 << 18))
        dist.barrier(group=host)
    optimizer.step()
    optimizer.zero_grad()
