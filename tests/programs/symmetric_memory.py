"""Asks NVML what torch asks it, then for memory that peers map, which there is none of here."""

import os

import torch
import torch.distributed as dist
import torch.distributed._symmetric_memory as symmetric_memory

torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
print("devices", torch.cuda.device_count(), torch.cuda.get_device_properties(1).uuid, flush=True)
print("by NVML", torch.cuda._raw_device_count_nvml(), torch.cuda._raw_device_uuid_nvml()[1],
      flush=True)
dist.init_process_group("nccl")
memory = symmetric_memory.empty(1024, device="cuda")
print("allocated", memory.numel(), flush=True)
symmetric_memory.rendezvous(memory, dist.group.WORLD)
