"""Data parallelism in which a table gives one rank twice the work."""
import os

import torch
import torch.distributed as dist

rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
layers = [4] * world
layers[world // 3] = 8
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(1024, 1024).cuda())
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for step in range(5):
    x = torch.randn(8192, 1024, device="cuda")
    for layer in range(layers[rank]):
        x = torch.nn.functional.relu(x @ x.T[:1024, :1024])
    model(x).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
dist.destroy_process_group()
