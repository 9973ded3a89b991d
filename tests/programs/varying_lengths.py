"""A pipeline of plain sends and receives, a communicator for each pair, on batches of another length each time."""

import os
import random

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh

STAGES = 4
rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
mesh = init_device_mesh("cuda", (world // STAGES, STAGES), mesh_dim_names=("dp", "pp"))
pipeline, replicas = mesh["pp"].get_group(), mesh["dp"].get_group()
stage, peers = dist.get_rank(pipeline), dist.get_process_group_ranks(pipeline)
model = torch.nn.Linear(64, 64).cuda()
optimizer = torch.optim.Adam(model.parameters())
random.seed(0)
for step in range(20):
    length = random.randrange(8, 4096)
    batch = torch.ones(length, 64, device="cuda")
    if stage > 0:
        dist.recv(batch, peers[stage - 1], group=pipeline)
    batch.requires_grad_()
    output = model(batch)
    grad = torch.ones_like(output)
    if stage < STAGES - 1:
        dist.send(output.detach(), peers[stage + 1], group=pipeline)
        dist.recv(grad, peers[stage + 1], group=pipeline)
    output.backward(grad)
    if stage > 0:
        dist.send(batch.grad, peers[stage - 1], group=pipeline)
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad, group=replicas)
    optimizer.step()
    optimizer.zero_grad()
    print("step", step, "of", length, flush=True)
dist.destroy_process_group()
