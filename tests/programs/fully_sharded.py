"""A small model under fully_shard, clipped, with a sum over all ranks that is printed."""
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard


def main():
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    print("by torchrun, by srun", os.environ["LOCAL_RANK"], os.environ["SLURM_LOCALID"])
    dist.init_process_group("nccl")
    model = nn.Sequential(*[nn.Sequential(nn.Linear(256, 1024), nn.GELU(), nn.Linear(1024, 256))
                            for _ in range(2)]).cuda()
    for layer in model:
        fully_shard(layer)
    fully_shard(model)
    optimizer = torch.optim.AdamW(model.parameters())
    for step in range(10):
        model(torch.ones(8, 256, device="cuda")).square().mean().backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        total = torch.tensor([dist.get_rank() + 1.0, step], device="cuda")
        dist.all_reduce(total)
        print(f"step {step} total {total.tolist()}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
