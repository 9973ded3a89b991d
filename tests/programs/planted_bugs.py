"""A pipeline of two stages with data parallelism in each, and a bug that only large jobs show.

group: with more than 32 data-parallel ranks those of stage 1 are cut into groups of 32. skip: one
rank leaves out a collective. shape: the last data-parallel rank of each stage sums one element
more. early: rank 0 alone sums before the first step. order: losses have a group of their own, and
one rank sums them first. twins: gradients of that rank go through the group of the losses.
"""

import os
import sys

import torch
import torch.distributed as dist

bug = sys.argv[1]
rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
dp = world // 2
stage, place = divmod(rank, dp)
data_parallel = None
for first in range(0, world, dp):
    size = 32 if bug == "group" and dp > 32 and first > 0 else dp
    for begin in range(first, first + dp, size):
        members = list(range(begin, min(begin + size, first + dp)))
        group = dist.new_group(members)
        data_parallel = group if rank in members else data_parallel
losses_group = data_parallel
if bug in ("order", "twins"):
    for first in range(0, world, dp):
        members = list(range(first, first + dp))
        group = dist.new_group(members)
        losses_group = group if rank in members else losses_group
peer = rank + dp if stage == 0 else rank - dp
pair = None
for low in range(dp):
    group = dist.new_group([low, low + dp])
    pair = group if low == rank % dp else pair

weight = torch.nn.Parameter(torch.ones(64, 64, device="cuda"))
optimizer = torch.optim.SGD([weight], lr=0.1)
if bug == "early" and rank == 0:
    dist.all_reduce(torch.ones(3, device="cuda"), group=data_parallel)


def sum_gradients():
    other = bug == "twins" and rank == 3
    dist.all_reduce(weight.grad, group=losses_group if other else data_parallel)


def sum_losses():
    extra = 1 if bug == "shape" and place == dp - 1 else 0
    losses = torch.zeros(8 + extra, device="cuda")
    dist.all_reduce(losses, group=losses_group)


for step in range(6):
    data = torch.ones(16, 64, device="cuda")
    if stage == 1:
        dist.recv(data, peer, group=pair)
    out = data @ weight
    if stage == 0:
        dist.send(out.detach(), peer, group=pair)
    out.sum().backward()
    if bug == "order" and rank == 3:
        sum_losses()
    if not (bug == "skip" and rank == 3):
        sum_gradients()
    if not (bug == "order" and rank == 3):
        sum_losses()
    optimizer.step()
    optimizer.zero_grad()
dist.destroy_process_group()
