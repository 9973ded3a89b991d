"""Collectives in ranges, no training; with "uneven" rank 0 reduces twice as much."""
import os
import sys
import time

import torch
import torch.distributed as dist
from torch.profiler import record_function

rank = int(os.environ["RANK"])
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
data = torch.ones(1 << (21 if rank == 0 and "uneven" in sys.argv else 20), device="cuda")
begin = time.time()
for _ in range(3):
    with record_function("reduce"):
        dist.all_reduce(data)
        torch.cuda.synchronize()
print("reduced in", time.time() - begin, flush=True)
with record_function("pause"):
    time.sleep(2)
dist.barrier()
torch.cuda.synchronize()
dist.destroy_process_group()
