"""Steps whose forward and backward passes are CUDA graphs, with an optimizer and an all_reduce outside."""
import torch
import torch.distributed as dist

dist.init_process_group("nccl")
torch.cuda.set_device(0)
module = torch.nn.Sequential(*[torch.nn.Linear(64, 64) for _ in range(3)]).cuda()
graphed = torch.cuda.make_graphed_callables(
    module, (torch.zeros(8, 64, device="cuda", requires_grad=True),))
optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
for _ in range(12):
    optimizer.zero_grad(set_to_none=False)
    graphed(torch.ones(8, 64, device="cuda", requires_grad=True)).sum().backward()
    for parameter in module.parameters():
        dist.all_reduce(parameter.grad)
    optimizer.step()
dist.destroy_process_group()
