"""A pipeline of four stages by torch.distributed.pipelining, 1F1B, each with data parallelism."""

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.pipelining import PipelineStage, Schedule1F1B
from torch.nn.parallel import DistributedDataParallel

STAGES, MICRO_BATCHES = 4, 6

device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
torch.cuda.set_device(device)
mesh = init_device_mesh("cuda", (STAGES, int(os.environ["WORLD_SIZE"]) // STAGES),
                        mesh_dim_names=("pp", "dp"))
torch.manual_seed(0)
place = mesh["pp"].get_local_rank()
layers = [nn.Sequential(nn.Linear(256, 1024), nn.GELU(), nn.Linear(1024, 256)) for _ in range(2)]
module = DistributedDataParallel(nn.Sequential(*layers).to(device),
                                 process_group=mesh["dp"].get_group())
sample = torch.zeros(4, 256, device=device)
differentiable = torch.zeros(4, 256, device=device, requires_grad=True)
stage = PipelineStage(module, place, STAGES, device,
                      input_args=(sample if place == 0 else differentiable,),
                      output_args=(differentiable,), group=mesh["pp"].get_group())
schedule = Schedule1F1B(stage, MICRO_BATCHES, loss_fn=nn.functional.mse_loss)
optimizer = torch.optim.AdamW(module.parameters(), lr=1e-4, fused=True)
x = torch.zeros(4 * MICRO_BATCHES, 256, device=device)
for step in range(4):
    losses = []
    if place == 0:
        schedule.step(x)
    elif place == STAGES - 1:
        schedule.step(target=x, losses=losses)
    else:
        schedule.step()
    optimizer.step()
    optimizer.zero_grad()
    print("step", step, *[f"{loss.item():.3f}" for loss in losses], flush=True)
dist.destroy_process_group()
