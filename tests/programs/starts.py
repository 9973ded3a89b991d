"""Starts as the smallest program does, and ends."""

import os

import torch
import torch.distributed as dist

torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
total = torch.ones(1, device="cuda")
dist.all_reduce(total)
assert total.item() == dist.get_world_size()
print("started", flush=True)
print("same", dist.get_world_size(), os.environ["GROUP_WORLD_SIZE"],
      os.environ["LOCAL_WORLD_SIZE"], os.environ["ROLE_WORLD_SIZE"])
print("rank", dist.get_rank(), os.environ["GROUP_RANK"], os.environ["ROLE_RANK"])
dist.destroy_process_group()
print("done", flush=True)
