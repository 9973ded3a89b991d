"""A sharded model that each rank saves its part of and loads it again, once, beside tensors that ranks
have in common, and that gathers what ranks are called."""

import os
import sys

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as checkpoint
from torch.distributed.checkpoint.state_dict import get_model_state_dict
from torch.distributed.fsdp import fully_shard

torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("cuda:nccl,cpu:gloo")
names = [None] * dist.get_world_size()
dist.all_gather_object(names, f"rank {dist.get_rank()}")
model = torch.nn.Sequential(*[torch.nn.Linear(256, 256) for _ in range(2)]).cuda()
for layer in model:
    fully_shard(layer)
fully_shard(model)
optimizer = torch.optim.AdamW(model.parameters())
for step in range(6):
    model(torch.randn(64, 256, device="cuda")).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
    if step == 0:
        counts = [torch.full((64,), float(i)) for i in range(dist.get_world_size())]
        state = {"model": get_model_state_dict(model), "counts": counts}
        checkpoint.save(state, checkpoint_id=sys.argv[1])
        checkpoint.load(state, checkpoint_id=sys.argv[1])
        print(f"saved as {names[dist.get_rank()]}", flush=True)
dist.destroy_process_group()
