"""FSDP, both versions, and DDP on one rank."""

import tempfile

import torch
import torch.distributed as dist
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
from torch.nn.parallel import DistributedDataParallel


def layers():
    return torch.nn.Sequential(*[torch.nn.Linear(64, 64, bias=False) for _ in range(3)]).cuda()


def fsdp2():
    model = layers()
    for layer in model:
        fully_shard(layer)
    return fully_shard(model)


def train(name, model):
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(2):
        model(torch.zeros(4, 64, device="cuda")).sum().backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
    print(name, sum(parameter.numel() for parameter in model.parameters()))


def main():
    torch.cuda.set_device(0)
    with tempfile.NamedTemporaryFile() as store:
        dist.init_process_group("nccl", init_method=f"file://{store.name}", rank=0, world_size=1)
        train("fsdp1", FullyShardedDataParallel(layers(), use_orig_params=True))
        train("fsdp2", fsdp2())
        train("ddp", DistributedDataParallel(layers(), device_ids=[0]))
        dist.barrier()
        dist.destroy_process_group()


main()
