"""Starts a process for each GPU of its node, as torch's first examples do."""

import os

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

print("read", __name__, flush=True)


def train(local_rank, node, per_node, size):
    rank = node * per_node + local_rank
    os.environ.update(MASTER_ADDR="localhost", MASTER_PORT="12355", LOCAL_RANK=str(local_rank))
    torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl", rank=rank, world_size=size)
    weight = torch.ones(64, 64, device=local_rank, requires_grad=True)
    optimizer = torch.optim.SGD([weight])
    for step in range(5):
        (weight @ weight).sum().backward()
        dist.all_reduce(weight.grad)
        optimizer.step()
        print("rank", rank, "step", step, flush=True)


if __name__ == "__main__":
    count = torch.cuda.device_count()
    nodes, own_node = int(os.environ["SLURM_NNODES"]), int(os.environ["SLURM_NODEID"])
    mp.spawn(train, args=(own_node, count, nodes * count), nprocs=count)
