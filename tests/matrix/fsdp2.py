"""FSDP2: attention and MLP blocks in bf16 under fully_shard over a mesh of all ranks, by nodes."""

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.RMSNorm(256)
        self.qkv, self.out = nn.Linear(256, 768, bias=False), nn.Linear(256, 256, bias=False)
        self.up, self.down = nn.Linear(256, 1024), nn.Linear(1024, 256)

    def forward(self, x):
        batch, seq, hidden = x.shape
        q, k, v = self.qkv(self.norm(x)).view(batch, seq, 3, 4, 64).permute(2, 0, 3, 1, 4)
        attention = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(attention.transpose(1, 2).reshape(batch, seq, hidden))
        return x + self.down(nn.functional.silu(self.up(x)))


torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
mesh = init_device_mesh("cuda", (2, int(os.environ["WORLD_SIZE"]) // 2),
                        mesh_dim_names=("replicate", "shard"))
torch.manual_seed(0)
with torch.device("meta"):
    model = nn.Sequential(nn.Embedding(1000, 256), *[Block() for _ in range(3)],
                          nn.Linear(256, 1000))
policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
for layer in model:
    fully_shard(layer, mesh=mesh, mp_policy=policy)
fully_shard(model, mesh=mesh, mp_policy=policy)
model.to_empty(device="cuda")
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
for step in range(4):
    tokens = torch.randint(1000, (2, 128), device="cuda")
    loss = nn.functional.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten())
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
    print("step", step, f"{loss.item():.3f}", flush=True)
dist.destroy_process_group()
