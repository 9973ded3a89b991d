"""Each parameter has an optimizer of its own, which steps as soon as its gradient is there, and the
backward pass runs on the thread of the forward pass."""

import torch

torch.autograd.set_multithreading_enabled(False)
model = torch.nn.Sequential(*[torch.nn.Linear(64, 64) for _ in range(3)]).cuda()
optimizers = {parameter: torch.optim.SGD([parameter], lr=0.1) for parameter in model.parameters()}


def step(parameter):
    optimizers[parameter].step()
    optimizers[parameter].zero_grad()


for parameter in model.parameters():
    parameter.register_post_accumulate_grad_hook(step)
for _ in range(8):
    model(torch.randn(16, 64, device="cuda")).sum().backward()
