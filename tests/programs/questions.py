"""Objects between pairs of ranks: each of the first half asks, and is answered by the second half."""

import os

import torch
import torch.distributed as dist

rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
half = world // 2
told = [None]
if rank < half:
    dist.send_object_list([{"rows": 8, "of": rank}], dst=rank + half)
    dist.recv_object_list(told, src=rank + half)
else:
    dist.recv_object_list(told, src=rank - half)
    if "REFUSES" in os.environ:
        raise ValueError(f"rank {rank} refuses {told[0]}")
    dist.send_object_list([{"columns": 2 * told[0]["rows"]}], dst=rank - half)
print("told", told, flush=True)
weight = torch.nn.Parameter(torch.ones(64, 64, device="cuda"))
optimizer = torch.optim.SGD([weight], lr=0.1)
for _ in range(5):
    (torch.ones(8, 64, device="cuda") @ weight).sum().backward()
    dist.all_reduce(weight.grad)
    optimizer.step()
    optimizer.zero_grad()
dist.destroy_process_group()
