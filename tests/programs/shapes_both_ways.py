"""Four stages that tell each other the shape of every activation and of every gradient."""

import os

import torch
import torch.distributed as dist

MICRO_BATCHES = 3
rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
replicas = world // 4
stage, place = divmod(rank, replicas)
columns = [range(i, world, replicas) for i in range(replicas)]
rows = [range(i * replicas, (i + 1) * replicas) for i in range(4)]
pipeline = [dist.new_group(list(ranks), group_desc="pp") for ranks in columns][place]
replica = [dist.new_group(list(ranks), group_desc="dp") for ranks in rows][stage]
width = 64 * (stage + 1)
layer = torch.nn.Linear(width, width + 64, device="cuda")
optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)


def send(tensor, to):
    dist.send(torch.tensor(tensor.shape, device="cuda"), group=pipeline, group_dst=to)
    dist.send(tensor, group=pipeline, group_dst=to)


def receive(source):
    shape = torch.zeros(2, dtype=torch.long, device="cuda")
    dist.recv(shape, group=pipeline, group_src=source)
    tensor = torch.empty(shape.tolist(), device="cuda")
    dist.recv(tensor, group=pipeline, group_src=source)
    return tensor


for step in range(5):
    for batch in range(MICRO_BATCHES):
        first = torch.ones(8 * (batch + 1), width, device="cuda")
        inputs = first if stage == 0 else receive(stage - 1)
        outputs = layer(inputs.requires_grad_())
        if stage < 3:
            send(outputs.detach(), stage + 1)
            outputs.backward(receive(stage + 1))
        else:
            outputs.sum().backward()
        if stage > 0:
            send(inputs.grad, stage - 1)
    for parameter in layer.parameters():
        dist.all_reduce(parameter.grad, group=replica)
    optimizer.step()
    optimizer.zero_grad()
    print("stage", stage, "ends step", step, flush=True)
dist.destroy_process_group()
