"""A pool whose memory NCCL allocates, registered with a communicator, as user buffers are."""

import os

import torch
import torch.distributed as dist

device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
torch.cuda.set_device(device)
dist.init_process_group("nccl", device_id=device)
backend = dist.group.WORLD._get_backend(device)
before = torch.cuda.mem_get_info()[0]
pool = torch.cuda.MemPool(backend.mem_allocator)
with torch.cuda.use_mem_pool(pool):
    buffer = torch.ones(64 << 20, dtype=torch.bfloat16, device=device)
assert before - torch.cuda.mem_get_info()[0] == 128 << 20
backend.register_mem_pool(pool)
dist.all_reduce(buffer)
print("same all_reduce", buffer.numel(), buffer.dtype)
backend.deregister_mem_pool(pool)
dist.destroy_process_group()
print("done")
