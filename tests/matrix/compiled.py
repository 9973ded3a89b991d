"""A compiled layer under DistributedDataParallel: forward and backward as generated kernels."""

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.norm, self.down = nn.Linear(256, 1024), nn.LayerNorm(1024), nn.Linear(1024, 256)

    def forward(self, x):
        return x + self.down(self.norm(nn.functional.gelu(self.up(x))))


torch._inductor.config.compile_threads = 1
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
torch.manual_seed(0)
model = DistributedDataParallel(Layer().cuda())
compiled = torch.compile(model)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
for step in range(4):
    x = torch.randn(32, 256, device="cuda")
    loss = compiled(x).pow(2).mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print("step", step, f"{loss.item():.3f}", flush=True)
dist.destroy_process_group()
