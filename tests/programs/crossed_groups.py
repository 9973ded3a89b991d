"""Two ranks that come to two groups, and to sends and receives, in different order: legal where they
enqueue; where each waits for one before it calls on the other, real ones would hang."""

import os
import sys

import torch
import torch.distributed as dist

torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
rank = dist.get_rank()
groups = [dist.new_group([0, 1]), dist.new_group([0, 1])]
message_groups = [dist.new_group([0, 1]), dist.new_group([0, 1])]
# Communicators, whose making waits for the other rank, in one order.
first = torch.zeros(4, device="cuda")
for group in groups:
    dist.all_reduce(first, group=group)
for group in message_groups:
    dist.send(first, 1, group=group) if rank == 0 else dist.recv(first, 0, group=group)
model = torch.nn.Linear(64, 64, device="cuda")
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
enqueues = sys.argv[1] == "enqueue"
for step in range(8):
    model(torch.ones(8, 64, device="cuda")).sum().backward()
    sums = [torch.full((4,), scale * (rank + 1), device="cuda") for scale in (1.0, 10.0)]
    given = torch.full((4,), rank + 1.0, device="cuda")
    received = [torch.zeros(4, device="cuda") for _ in message_groups]
    places = (0, 1) if rank == 0 else (1, 0)
    works = []
    for place in places:
        works.append(dist.all_reduce(sums[place], group=groups[place], async_op=enqueues))
    if enqueues:
        # Rank 0 receives from the first group and sends to the second; rank 1 the reverse, each
        # with its receive first.
        works.append(dist.irecv(received[0], src=1 - rank, group=message_groups[places[0]]))
        works.append(dist.isend(given, dst=1 - rank, group=message_groups[places[1]]))
        for work in works:
            work.wait()
    optimizer.step()
    optimizer.zero_grad()
    print(f"{step} step: {sums[0][0].item()} {sums[1][0].item()}, received {received[0][0].item()}")
dist.destroy_process_group()
