"""Trains with values that ranks send each other on the CPU too: objects, sums and messages of gloo."""

import os

import torch
import torch.distributed as dist

rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
torch.cuda.set_device(device)
dist.init_process_group("cpu:gloo,cuda:nccl")
cpu = dist.new_group(backend="gloo")
layer = torch.nn.Linear(64, 64).to(device)
optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
for step in range(6):
    layer(torch.ones(8, 64, device=device)).sum().backward()
    for parameter in layer.parameters():
        dist.all_reduce(parameter.grad)
    optimizer.step()
    optimizer.zero_grad()
    names = [None] * world
    dist.all_gather_object(names, f"rank {rank} step {step}", group=cpu)
    assert names[rank] == f"rank {rank} step {step}"
    if rank < 2:
        assert names[1 - rank] in (f"rank {1 - rank} step {step}", names[rank]), names
    total = torch.full((100_000,), float(rank + 1))
    dist.all_reduce(total, group=cpu)
    print("step", step, names[0], total[0].item(), flush=True)
dist.destroy_process_group()
