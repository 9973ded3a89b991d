"""The halves of a zero-bubble backward pass: weights in one order, however often it is run."""

import os

import torch
import torch.distributed as dist
from torch.distributed.pipelining import _backward

torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
print("started", flush=True)
model = torch.nn.Sequential(*[torch.nn.Linear(64, 64) for _ in range(6)]).cuda()
weights = list(model.parameters())
x = torch.zeros(4, 64, device="cuda", requires_grad=True)
for _ in range(4):
    output = model(x)
    numbers = {_backward._get_grad_fn_or_grad_acc(weight): number
               for number, weight in enumerate(weights)}
    _, groups = _backward.stage_backward_input([output], [torch.ones_like(output)], [x],
                                               iter(weights))
    order = [numbers[node] for group in groups for node in group["params"]]
    assert order == list(range(len(weights))), order
    _backward.stage_backward_weight(iter(weights), groups)
print("same", sum(weight.grad is not None for weight in weights))
dist.destroy_process_group()
print("done", flush=True)
