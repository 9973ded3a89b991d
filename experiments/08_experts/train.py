"""A mixture-of-experts layer in plain torch: top-k routing, tokens sent to their experts over an
expert-parallel group by all_to_all with the sizes that the router gives, and back. The experts'
gradients are reduced over their replicas, the router's over all ranks. Defaults are the shapes of
a layer of Qwen3-235B-A22B."""
import argparse
import os
import time

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.nn.functional import all_to_all_single


class Expert(nn.Module):
    def __init__(self, hidden, ffn):
        super().__init__()
        self.gate_up = nn.Linear(hidden, 2 * ffn, bias=False)
        self.down = nn.Linear(ffn, hidden, bias=False)

    def forward(self, x):
        gate, up = self.gate_up(x).chunk(2, dim=-1)
        return self.down(F.silu(gate) * up)


class ExpertLayer(nn.Module):
    def __init__(self, args, group):
        super().__init__()
        self.group, self.experts_in_all, self.top_k = group, args.experts, args.top_k
        self.router = nn.Linear(args.hidden, args.experts, bias=False)
        local = args.experts // group.size()
        self.experts = nn.ModuleList([Expert(args.hidden, args.ffn) for _ in range(local)])

    def forward(self, x):
        weights, chosen = F.softmax(self.router(x), dim=-1).topk(self.top_k, dim=-1)
        chosen = chosen.flatten()
        order = chosen.argsort(stable=True)
        sent = torch.bincount(chosen, minlength=self.experts_in_all)
        received = torch.empty_like(sent)
        dist.all_to_all_single(received, sent, group=self.group)
        ranks, local = self.group.size(), len(self.experts)
        sent_to = sent.view(ranks, local).sum(1).tolist()
        counts = received.view(ranks, local).tolist()
        received_from = [sum(row) for row in counts]

        tokens = x[order // self.top_k]
        arrived = x.new_empty(sum(received_from), x.shape[1])
        arrived = all_to_all_single(arrived, tokens, received_from, sent_to, group=self.group)
        pieces = arrived.split([count for row in counts for count in row])
        results = [
            expert(torch.cat(pieces[i::local])).split([row[i] for row in counts])
            for i, expert in enumerate(self.experts)
        ]
        results = torch.cat([results[i][rank] for rank in range(ranks) for i in range(local)])
        returned = all_to_all_single(
            torch.empty_like(tokens), results, sent_to, received_from, group=self.group
        )
        weighted = returned * weights.flatten()[order].unsqueeze(1).to(returned.dtype)
        return torch.zeros_like(x).index_add(0, order // self.top_k, weighted), len(arrived)


def reduce_gradients(layer, replicas):
    for name, parameter in layer.named_parameters():
        group = dist.group.WORLD if name.startswith("router") else replicas
        dist.all_reduce(parameter.grad, group=group)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--expert-parallel", type=int, default=64)
    parser.add_argument("--experts", type=int, default=128)
    parser.add_argument("--top-k", type=int, default=8)
    parser.add_argument("--hidden", type=int, default=4096)
    parser.add_argument("--ffn", type=int, default=1536)
    parser.add_argument("--tokens", type=int, default=4096)
    parser.add_argument("--steps", type=int, default=8)
    args = parser.parse_args()

    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    mesh = dist.init_device_mesh(
        "cuda",
        (dist.get_world_size() // args.expert_parallel, args.expert_parallel),
        mesh_dim_names=("replicate", "ep"),
    )
    layer = ExpertLayer(args, mesh.get_group("ep")).cuda().bfloat16()
    optimizer = torch.optim.AdamW(layer.parameters(), lr=1e-4, fused=True)
    for step in range(args.steps):
        start = time.perf_counter()
        x = torch.randn(args.tokens, args.hidden, device="cuda", dtype=torch.bfloat16)
        y, arrived = layer(x.requires_grad_())
        y.float().pow(2).mean().backward()
        reduce_gradients(layer, mesh.get_group("replicate"))
        optimizer.step()
        optimizer.zero_grad()
        torch.cuda.synchronize()
        print(f"rank {dist.get_rank()}: step {step}, {arrived} tokens arrived, "
              f"{time.perf_counter() - start:.4f} s", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
