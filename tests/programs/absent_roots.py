"""A rank whose roots and senders are elsewhere: what it is told steers it and is printed.

Ranks form pp 2 x tp 4. Every step the first of each tp group broadcasts how many products to make
(a scalar on the device that the host reads), a mask and a list of objects; ranks of the last stage
receive from the first the shape of what follows, then the data.
"""

import os

import torch
import torch.distributed as dist

rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
tp = next(group for first in range(0, world, 4)
          if rank in (group_ranks := list(range(first, first + 4)))
          for group in [dist.new_subgroups(4)[0]])
first = rank // 4 * 4
half = world // 2
pairs = [dist.new_group([i, i + half]) for i in range(half)]
pair = pairs[rank % half]

weight = torch.nn.Parameter(torch.ones(256, 256, device="cuda"))
optimizer = torch.optim.SGD([weight], lr=0.1)
dist.broadcast(torch.empty(1 << 20, device="cuda"), first, group=tp)  # as of weights
objects = [{"stage": rank // half, "names": ["a", "b"]}] if rank == first else [None]
dist.broadcast_object_list(objects, src=first, group=tp, device=torch.device("cuda"))
print("objects", objects, flush=True)

for step in range(6):
    count = torch.tensor([3 + rank // half if rank == first else 0], device="cuda")
    dist.broadcast(count, first, group=tp)
    assert count.item() > 0, "the root's count is known"
    if rank < half:  # the stages' groups have different collectives between those with a root
        dist.all_reduce(torch.ones(1, device="cuda"), group=tp)
    mask = torch.tensor([True, False] * 8 if rank == first else [False] * 16, device="cuda")
    dist.broadcast(mask, first, group=tp)
    shape = torch.tensor([16, 256], device="cuda")
    if rank < half:
        dist.send(shape, rank + half)
        data = torch.ones(16, 256, device="cuda")
        dist.send(data, rank + half)
    else:
        shape.zero_()
        dist.recv(shape, rank - half)
        data = torch.empty(shape.tolist(), device="cuda")
        dist.recv(data, rank - half)
    for _ in range(count.item()):
        data = data @ weight
    mean = data.detach().mean(0)  # of kernels, which do nothing: not even the root knows it
    dist.broadcast(mean, first, group=tp)
    data.sum().backward()
    dist.all_reduce(weight.grad, group=pair)
    optimizer.step()
    optimizer.zero_grad()
    print("step", step, "count", count.item(), "mask", int(mask.cpu().sum()), "shape",
          shape.tolist(), flush=True)
dist.destroy_process_group()
