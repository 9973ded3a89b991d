"""DiLoCo: ranks train by themselves, and every fourth step an outer optimizer takes the mean of what
they have changed."""

import os

import torch
import torch.distributed as dist

torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
model = torch.nn.Linear(512, 512, device="cuda")
inner = torch.optim.AdamW(model.parameters())
common = [parameter.detach().clone() for parameter in model.parameters()]
outer = torch.optim.SGD(common, lr=0.7, momentum=0.9, nesterov=True)
for step in range(200):
    model(torch.ones(8, 512, device="cuda")).sum().backward()
    inner.step()
    inner.zero_grad()
    if step % 4 == 3:
        for mean, own in zip(common, model.parameters()):
            mean.grad = mean - own.detach()
            dist.all_reduce(mean.grad)
        outer.step()
        with torch.no_grad():
            for mean, own in zip(common, model.parameters()):
                own.copy_(mean)
dist.destroy_process_group()
