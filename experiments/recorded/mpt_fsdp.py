"""MPT as LLM Foundry trained it in 2023 with torch's FSDP: blocks of their own, bf16, attention in Triton, norms in 16
bits, gradients reduced with every micro-batch, recomputation of whole blocks, decoupled AdamW. Not LLM Foundry itself,
which is not installed here."""
import argparse
import functools
import os
import time

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import (
    apply_activation_checkpointing,
)
from torch.distributed.fsdp import FullyShardedDataParallel, MixedPrecision, ShardingStrategy
from torch.distributed.fsdp.wrap import ModuleWrapPolicy
from torch.utils.checkpoint import set_checkpoint_early_stop

from triton_attention import FlashAttnFunc

VOCAB = 50368


class Norm(nn.LayerNorm):
    """Of 16 bits, where autocast would take 32 (norm_type: low_precision_layernorm)."""

    def forward(self, x):
        dtype = torch.get_autocast_dtype("cuda")
        with torch.autocast("cuda", enabled=False):
            return F.layer_norm(x.to(dtype), self.normalized_shape, self.weight.to(dtype), None, self.eps)


class Block(nn.Module):
    def __init__(self, hidden, heads):
        super().__init__()
        self.heads = heads
        self.norm_1 = Norm(hidden, bias=False)
        self.qkv = nn.Linear(hidden, 3 * hidden, bias=False)
        self.out = nn.Linear(hidden, hidden, bias=False)
        self.norm_2 = Norm(hidden, bias=False)
        self.up = nn.Linear(hidden, 4 * hidden, bias=False)
        self.down = nn.Linear(4 * hidden, hidden, bias=False)

    def forward(self, x):
        b, s, hidden = x.shape
        q, k, v = (t.view(b, s, self.heads, -1) for t in self.qkv(self.norm_1(x)).chunk(3, dim=-1))
        x = x + self.out(FlashAttnFunc.apply(q, k, v).view(b, s, hidden))
        return x + self.down(F.gelu(self.up(self.norm_2(x))))


class Mpt(nn.Module):
    def __init__(self, args):
        super().__init__()
        self.tokens = nn.Embedding(VOCAB, args.hidden)
        self.places = nn.Embedding(args.seq, args.hidden)
        self.blocks = nn.ModuleList(Block(args.hidden, args.heads) for _ in range(args.layers))
        self.norm = Norm(args.hidden, bias=False)

    def forward(self, tokens):
        x = self.tokens(tokens) + self.places(torch.arange(tokens.shape[1], device=tokens.device))
        for block in self.blocks:
            x = block(x)
        return F.linear(self.norm(x), self.tokens.weight)


class DecoupledAdamW(torch.optim.Optimizer):
    """A loop over the parameters, as Composer's."""

    def __init__(self, parameters, lr=1e-4, betas=(0.9, 0.95), eps=1e-8, weight_decay=1e-5):
        super().__init__(parameters, {"lr": lr, "betas": betas, "eps": eps, "decay": weight_decay})

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            (b1, b2), lr = group["betas"], group["lr"]
            for p in group["params"]:
                if p.grad is None or p.numel() == 0:
                    continue
                state = self.state[p]
                if not state:
                    state["step"] = 0
                    state["first"], state["second"] = torch.zeros_like(p), torch.zeros_like(p)
                state["step"] += 1
                p.mul_(1 - group["decay"])
                state["first"].lerp_(p.grad, 1 - b1)
                state["second"].mul_(b2).addcmul_(p.grad, p.grad, value=1 - b2)
                scale = (1 - b2 ** state["step"]) ** 0.5
                root = (state["second"].sqrt() / scale).add_(group["eps"])
                p.addcdiv_(state["first"], root, value=-lr / (1 - b1 ** state["step"]))


def main():
    parser = argparse.ArgumentParser()
    for name in ("layers", "hidden", "heads", "seq", "micro"):
        parser.add_argument(f"--{name}", type=int, required=True)
    parser.add_argument("--accum", type=int, default=1)
    parser.add_argument("--grad-op", action="store_true", help="SHARD_GRAD_OP")
    parser.add_argument("--recompute", action="store_true")
    parser.add_argument("--pure", action="store_true", help="bf16 (PURE): gradients are reduced in bf16")
    parser.add_argument("--steps", type=int, default=5)
    args = parser.parse_args()
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    with torch.device("meta"):
        model = Mpt(args)
    model = FullyShardedDataParallel(
        model,
        sharding_strategy=ShardingStrategy.SHARD_GRAD_OP if args.grad_op else ShardingStrategy.FULL_SHARD,
        auto_wrap_policy=ModuleWrapPolicy({Block}),
        mixed_precision=MixedPrecision(
            param_dtype=torch.bfloat16,
            reduce_dtype=torch.bfloat16 if args.pure else torch.float32,
            buffer_dtype=torch.bfloat16,
        ),
        param_init_fn=lambda module: module.to_empty(device="cuda", recurse=False),
        device_id=torch.cuda.current_device(),
        limit_all_gathers=True,
        use_orig_params=True,
    )
    if args.recompute:
        apply_activation_checkpointing(model, check_fn=lambda module: isinstance(module, Block))
    with set_checkpoint_early_stop(False):  # as before torch 2.1
        train(model, args)


def train(model, args):
    optimizer = DecoupledAdamW(model.parameters())
    loss_of = functools.partial(F.cross_entropy, ignore_index=-100)
    for step in range(args.steps):
        start = time.perf_counter()
        batch = torch.randint(VOCAB, (args.accum, args.micro, args.seq + 1))
        for tokens in batch.cuda(non_blocking=True):
            with torch.autocast("cuda", torch.bfloat16):
                logits = model(tokens[:, :-1])
                loss = loss_of(logits.flatten(0, 1), tokens[:, 1:].flatten())
            (loss / args.accum).backward()
        model.clip_grad_norm_(1.0)
        optimizer.step()
        optimizer.zero_grad()
        torch.cuda.synchronize()
        if dist.get_rank() == 0:
            print(f"step {step} loss {loss.item():.3f} {time.perf_counter() - start:.3f} s", flush=True)


if __name__ == "__main__":
    main()
