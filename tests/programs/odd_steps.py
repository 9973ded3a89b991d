"""DistributedDataParallel whose rank 0 saves in every tenth step, which evaluates in every seventh,
and whose rank 0 logs in every fifth of the others."""
import os
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

rank = int(os.environ["RANK"])
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
net = DistributedDataParallel(nn.Sequential(*[nn.Linear(512, 512) for _ in range(4)]).cuda())
optimizer = torch.optim.AdamW(net.parameters())
plain = "plain" in sys.argv
for step in range(40):
    batch = torch.randn(32, 512, device="cuda")
    loss = net(batch).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if plain:
        continue
    if step % 10 == 9:
        if rank == 0:
            torch.save(net.state_dict(), os.devnull)
        dist.barrier()
    elif step % 7 == 6:
        with torch.no_grad():
            for _ in range(5):
                net.module(batch)
    elif step % 5 == 4 and rank == 0:
        print("loss", loss.item(), flush=True)
dist.destroy_process_group()
