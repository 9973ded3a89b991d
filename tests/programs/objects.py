"""Ranks that receive Python objects from others by every object collective, small and larger ones,
and make their shapes of them.
"""

import os

import torch
import torch.distributed as dist

rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
weight = torch.nn.Parameter(torch.ones(256, 256, device="cuda"))
optimizer = torch.optim.SGD([weight], lr=0.1)
half = world // 2

for step in range(6):
    for length in (1, 5_000, 150_000):
        own = {"rows": 16, "text": "x" * length}
        objects = [own, "second"] if rank == 0 else [None, None]
        dist.broadcast_object_list(objects, src=0)
        assert objects == [own, "second"], f"broadcast of {length}"
        gathered = [None] * world
        dist.all_gather_object(gathered, own)
        assert gathered == [own] * world, f"all_gather of {length}"
        scattered = [None]
        dist.scatter_object_list(scattered, [own] * world if rank == 0 else None, src=0)
        assert scattered == [own], f"scatter of {length}"
        at_root = [None] * world if rank == 0 else None
        dist.gather_object(own, at_root, dst=0)
        assert rank != 0 or at_root == [own] * world, f"gather of {length}"
        sent = [own]
        if rank < half:
            dist.send_object_list(sent, rank + half)
        else:
            sent = [None]
            dist.recv_object_list(sent, rank - half)
        assert sent == [own], f"receive of {length}"
    data = torch.ones(scattered[0]["rows"], 256, device="cuda") @ weight
    data.sum().backward()
    dist.all_reduce(weight.grad)
    optimizer.step()
    optimizer.zero_grad()
    print("step", step, "rows", scattered[0]["rows"], flush=True)
dist.destroy_process_group()
