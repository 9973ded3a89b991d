"""Resumes from checkpoints and reads tokens that are not there."""

import os

import numpy
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as checkpoint
from torch.nn.parallel import DistributedDataParallel

torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
tokens = numpy.memmap("/absent/train.bin", dtype=numpy.uint16, mode="r")
few = numpy.fromfile("/absent/few.bin", dtype=numpy.int32, count=7)
print(f"{len(tokens)} and {len(few)} tokens, the last {tokens[-1]} and {few[-1]}")
model = torch.nn.Linear(64, 64).cuda()
saved = torch.load("/absent/last.pt", map_location="cpu")
model.load_state_dict({name.removeprefix("module."): each for name, each in saved["model"].items()})
state = {"model": model.state_dict(), "epoch": 3}
checkpoint.load(state, checkpoint_id="/absent/sharded")
model.load_state_dict(state["model"])
print(f"epoch {state['epoch']}, weights {'kept' if model.weight.any() else 'lost'}")
model = DistributedDataParallel(model)
optimizer = torch.optim.AdamW(model.parameters())
optimizer.load_state_dict(saved["optimizer"])
torch.set_rng_state(saved["random"])
for step in range(saved["step"] + 1, 7):
    batch = torch.from_numpy(tokens[64 * step:64 * step + 64].astype(numpy.float32)).cuda()
    model(batch).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    print(f"step {step}, best {saved['best']:.1f}", flush=True)
dist.destroy_process_group()
