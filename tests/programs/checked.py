"""Faults as people report them, each small: the first argument says which. "none" has none.

checkpoint: after training rank 0 alone saves once more, in a function that ends in a barrier. one: a
group of one rank, without training. own_group: every rank makes only its own group. order: one rank
comes to two groups in the other order, and waits for each. twice: rank 0 sums twice as many
elements, without training. uneven: odd ranks have one batch less. save: rank 0 saves for longer than
the group's time-out. dropped: nobody waits for a sum that was started asynchronously.
"""

import datetime
import os
import sys
import time

import torch
import torch.distributed as dist

fault = sys.argv[1]
rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
torch.cuda.set_device(device)
dist.init_process_group("nccl", device_id=device if fault == "one" else None,
                        timeout=datetime.timedelta(minutes=10))


def save():
    if fault == "save" and rank == 0:
        time.sleep(660)
    dist.barrier()


def total(size, group=None):
    value = torch.ones(size, device=device)
    dist.all_reduce(value, group=group)
    return value.tolist()[0]


if fault == "one":
    dist.new_group(ranks=[0])
    dist.barrier()
    sys.exit()
if fault == "twice":
    total(64 if rank == 0 else 32)
    sys.exit()
low = rank // 2 * 2
half = None
for first in (low,) if fault == "own_group" else range(0, world, 2):
    group = dist.new_group([first, first + 1])
    half = group if first == low else half

model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(64, 64, device=device))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(6 - (rank % 2 if fault == "uneven" else 0)):
    model(torch.randn(8, 64, device=device)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    if fault == "order" and rank == 3:
        total(4, half)
        total(8)
    else:
        total(8)
        total(4, half)
    if step % 3 == 2:
        save()
if fault == "dropped":
    dist.all_reduce(torch.ones(24, device=device), async_op=True)
    sys.exit()
if fault == "checkpoint" and rank == 0:
    save()
dist.barrier()
dist.destroy_process_group()
