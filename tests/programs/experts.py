"""A mixture of experts over all ranks, whose scores nobody computes: how many tokens each expert gets
follows the rule, and sizes that the host reads from them fit together. Prints them."""

import os

import torch
import torch.distributed as dist

rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
tokens, experts, chosen, hidden = 64, 2 * world, 2, 32
router = torch.nn.Linear(hidden, experts, device="cuda")
expert = torch.nn.Linear(hidden, hidden, device="cuda")
optimizer = torch.optim.SGD([*router.parameters(), *expert.parameters()], lr=0.1)

for step in range(6):
    x = torch.randn(tokens, hidden, device="cuda")
    scores = router(x).softmax(dim=1)
    _, indices = torch.topk(scores, chosen, dim=1)
    routing_map = torch.zeros_like(scores).int().scatter(1, indices, 1).bool()
    per_expert = routing_map.sum(dim=0)
    sent = per_expert.reshape(world, -1).sum(dim=1)
    received = torch.empty_like(sent)
    dist.all_to_all_single(received, sent)
    order = torch.arange(tokens, device="cuda").unsqueeze(0).expand(experts, -1).masked_select(
        routing_map.t().contiguous())
    sent, received = sent.tolist(), received.tolist()
    routed = torch.empty(sum(received), hidden, device="cuda")
    dist.all_to_all_single(routed, x[order], received, sent)
    expert(routed).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    first, best = scores.argmax(dim=1), scores.max(dim=1, keepdim=True).indices
    print("first", *(torch.bincount(index.flatten(), minlength=experts).tolist()
                     for index in (first, best)))
    print("counted", torch.histc(indices.float(), bins=experts, min=0, max=experts).long().tolist())
    print("step", step, "experts", per_expert.tolist(), "order", order.numel(), "sent", sent,
          "received", received, flush=True)
dist.destroy_process_group()
