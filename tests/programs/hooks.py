"""Data parallelism whose hook makes a future for each of many buckets.

torch deals out the streams of its pool in turn, so that the hook's are others in each step.
"""

import os

import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks

torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
model = torch.nn.Sequential(*[torch.nn.Linear(64, 64, bias=False) for _ in range(40)]).cuda()
model = torch.nn.parallel.DistributedDataParallel(model, bucket_cap_mb=0.001)
model.register_comm_hook(None, default_hooks.bf16_compress_hook)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(12):
    model(torch.randn(16, 64, device="cuda")).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
dist.destroy_process_group()
