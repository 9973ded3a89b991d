"""Gathers objects of another size on every rank, and joins ranks with unequal inputs at the end."""

import os

import torch
import torch.distributed as dist
from torch.distributed.algorithms.join import Join
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("nccl")
rank, ranks = dist.get_rank(), dist.get_world_size()
device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
torch.cuda.set_device(device)
model = DistributedDataParallel(torch.nn.Linear(64, 64).to(device))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def step():
    model(torch.randn(8, 64, device=device)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()


for i in range(8):
    step()
    objects = [None] * ranks
    dist.all_gather_object(objects, "y" * (rank % 7))
    if i % 4 == 3:
        dist.all_gather_object(objects, {"rank": rank, "losses": [0.1] * (rank % 3)})
        gathered = [None] * ranks if rank == 0 else None
        dist.gather_object("x" * (rank % 5), gathered, dst=0)
with Join([model]):
    for _ in range(2 + rank % 2):
        step()
print("ended", flush=True)
dist.destroy_process_group()
