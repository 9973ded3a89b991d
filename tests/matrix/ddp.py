"""DistributedDataParallel with a clip of gradients and AdamW: buckets, a loss that is read."""

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
torch.manual_seed(0)
layers = [nn.Sequential(nn.LayerNorm(256), nn.Linear(256, 1024), nn.GELU(), nn.Linear(1024, 256))
          for _ in range(4)]
model = DistributedDataParallel(
    nn.Sequential(nn.Embedding(1000, 256), *layers, nn.Linear(256, 1000)).cuda(),
    bucket_cap_mb=2)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
for step in range(4):
    tokens = torch.randint(1000, (4, 128), device="cuda")
    with torch.autocast("cuda", torch.bfloat16):
        loss = nn.functional.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten())
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
    print("step", step, f"{loss.item():.3f}", flush=True)
dist.destroy_process_group()
