"""Parameters and their optimizer on the CPU, which the device gets a copy of; the module is traced
with symbols for its batch size."""

import os

import torch
import torch.distributed as dist

torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
master = torch.nn.Parameter(torch.ones(128, 128))
optimizer = torch.optim.AdamW([master])


@torch.compile(dynamic=True, backend="aot_eager")
def loss(data, weight):
    return (data @ weight).square().mean() * data.shape[0]


for step in range(8):
    weight = master.detach().cuda().requires_grad_()
    for rows in (4, 6):
        loss(torch.ones(rows, 128, device="cuda"), weight).backward()
    dist.all_reduce(weight.grad)
    assert torch.isfinite(weight.grad).all()
    master.grad = weight.grad.cpu()
    optimizer.step()
dist.destroy_process_group()
