"""A pipeline of torch.distributed.pipelining whose stages differ in width and find shapes at run time."""

import os

import torch
import torch.distributed as dist
from torch.distributed.pipelining import PipelineStage, Schedule1F1B

rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
torch.cuda.set_device(device)
dist.init_process_group("nccl")
width, next_width = 64 * (rank + 1), 64 * (rank + 2)
module = torch.nn.Linear(width, next_width).to(device)
stage = PipelineStage(module, rank, world, device)
schedule = Schedule1F1B(stage, 4, loss_fn=torch.nn.functional.mse_loss)
optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
print("stage", rank, "from", width, "to", next_width, flush=True)
for _ in range(5):
    if rank == 0:
        schedule.step(torch.ones(16, width, device=device))
    elif rank == world - 1:
        schedule.step(target=torch.ones(16, next_width, device=device))
    else:
        schedule.step()
    optimizer.step()
    optimizer.zero_grad()
dist.destroy_process_group()
