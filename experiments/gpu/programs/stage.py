"""One GPU's part of a job: layers of a preset's width, sharded as by tensor parallelism, trained for
four steps. Writes what the caching allocator did and, on a real GPU, kernels and matrix products of a
step.

The same file runs on the real GPU and, under prism-emulate, on the virtual one.
"""
import argparse
import json
import os
import time

import torch
import torch.nn.functional as F
from torch import nn

# Width, heads and tensor-parallel size of presets in launch/presets/models/.
PRESETS = {"gpt3-1.3b": (2048, 16, 1), "gpt3-13b": (5120, 40, 4), "gpt3-175b": (12288, 96, 8),
           "llama3-70b": (8192, 64, 8)}


class Layer(nn.Module):
    def __init__(self, hidden, heads, tp):
        super().__init__()
        self.heads, self.head_size = heads // tp, hidden // heads
        self.norm1, self.norm2 = nn.LayerNorm(hidden), nn.LayerNorm(hidden)
        self.qkv = nn.Linear(hidden, 3 * hidden // tp)
        self.proj = nn.Linear(hidden // tp, hidden)
        self.up = nn.Linear(hidden, 4 * hidden // tp)
        self.down = nn.Linear(4 * hidden // tp, hidden)

    def forward(self, x):
        b, s, _ = x.shape
        q, k, v = (self.qkv(self.norm1(x)).view(b, s, 3, self.heads, self.head_size)
                   .permute(2, 0, 3, 1, 4))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(y.transpose(1, 2).reshape(b, s, -1))
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))


def build(args):
    hidden, heads, tp = PRESETS[args.preset]
    if args.variant == "megatron":
        return MegatronStage(args.preset, args.layers).cuda().bfloat16(), hidden
    with torch.device("cuda"):
        model = nn.Sequential(*(Layer(hidden, heads, tp) for _ in range(args.layers)))
    model = model.to(torch.bfloat16)
    if args.variant == "compiled":
        model = torch.compile(model)
    if args.variant == "fsdp2":
        from torch.distributed.fsdp import fully_shard
        join_job()
        for layer in model:
            fully_shard(layer)
        fully_shard(model)
    return model, hidden


def join_job():
    """The job of one rank."""
    for name, value in (("RANK", "0"), ("WORLD_SIZE", "1"), ("MASTER_ADDR", "127.0.0.1"),
                        ("MASTER_PORT", "0")):
        os.environ.setdefault(name, value)
    torch.distributed.init_process_group("nccl")


class MegatronStage(nn.Module):
    """A middle stage of megatron-core: its own layers, with input from the stage before."""

    def __init__(self, preset, layers):
        super().__init__()
        from megatron.core import parallel_state, tensor_parallel
        from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec
        from megatron.core.transformer import TransformerConfig
        from megatron.core.transformer.transformer_block import TransformerBlock
        hidden, heads, tp = PRESETS[preset]
        join_job()
        parallel_state.initialize_model_parallel()
        tensor_parallel.model_parallel_cuda_manual_seed(1234)
        config = TransformerConfig(
            num_layers=layers, hidden_size=hidden, num_attention_heads=heads // tp,
            kv_channels=hidden // heads, ffn_hidden_size=4 * hidden // tp, bf16=True,
            params_dtype=torch.bfloat16, hidden_dropout=0.0, attention_dropout=0.0,
            gradient_accumulation_fusion=False, masked_softmax_fusion=False)
        self.block = TransformerBlock(config, get_gpt_layer_local_spec(), pre_process=False,
                                      post_process=False)

    def forward(self, x):
        length = x.shape[1]
        mask = torch.ones(1, 1, length, length, dtype=torch.bool, device="cuda").triu(1)
        self.block.set_input_tensor(x.transpose(0, 1).contiguous())
        return self.block(hidden_states=None, attention_mask=mask)


def step(model, optimizer, x):
    loss = model(x).float().pow(2).mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)


# Ops that are one matrix product, and how many of their inputs give its shape.
PRODUCTS = {"aten::mm": 2, "aten::bmm": 2, "aten::addmm": 3, "aten::baddbmm": 3, "aten::_scaled_mm": 2}


def product(name, inputs):
    """A matrix product as a line: the op and the sizes of its tensors."""
    return " ".join([name, *("x".join(map(str, sizes)) for sizes in inputs[:PRODUCTS[name]])])


def profiled(path, run):
    """Name, grid and block of each kernel of `run` and its matrix products, each in order of start."""
    from torch.profiler import ProfilerActivity, profile
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA],
                 record_shapes=True) as profiler:
        run()
        torch.cuda.synchronize()
    trace = path + ".trace"
    profiler.export_chrome_trace(trace)
    with open(trace, encoding="utf-8") as file:
        events = sorted((e for e in json.load(file)["traceEvents"] if "cat" in e and "ts" in e),
                        key=lambda e: e["ts"])
    os.remove(trace)
    return {"kernels": [{"name": e["name"], "grid": e["args"]["grid"], "block": e["args"]["block"],
                         "us": e["dur"]} for e in events if e["cat"] == "kernel"],
            "products": [product(e["name"], e["args"]["Input Dims"]) for e in events
                         if e["cat"] == "cpu_op" and e["name"] in PRODUCTS]}


def seconds(run):
    """Of ten steps, each from an idle device to an idle one."""
    taken = []
    for _ in range(10):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        run()
        torch.cuda.synchronize()
        taken.append(time.perf_counter() - begin)
    return taken


def allocator():
    """What the allocator did; addresses as segment (by first use) and offset."""
    segments, actions = [], []
    for trace in torch.cuda.memory._snapshot()["device_traces"]:
        for entry in trace:
            address = entry["addr"]
            if entry["action"].startswith("segment_alloc"):
                segments.append((address, entry["size"]))
            index = next((i for i, (begin, size) in reversed(list(enumerate(segments)))
                          if begin <= address < begin + size), -1)
            offset = address - segments[index][0] if index >= 0 else 0
            actions.append([entry["action"], entry["size"], index, offset])
    return actions


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--preset", choices=PRESETS, default="gpt3-1.3b")
    parser.add_argument("--variant", choices=["eager", "compiled", "fsdp2", "megatron"], default="eager")
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--sequence", type=int, default=2048)
    parser.add_argument("--dump", required=True)
    parser.add_argument("--real", action="store_true")
    args = parser.parse_args()
    torch.manual_seed(0)
    torch.cuda.memory._record_memory_history(context=None, stacks="python", max_entries=1_000_000)
    model, hidden = build(args)
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    x = torch.randn(1, args.sequence, hidden, device="cuda", dtype=torch.bfloat16)
    for _ in range(4):
        step(model, optimizer, x)
    free, total = torch.cuda.mem_get_info()
    result = {"device_bytes": total - free, "peak_allocated": torch.cuda.max_memory_allocated(),
              "peak_reserved": torch.cuda.max_memory_reserved(), "allocator": allocator()}
    torch.cuda.memory._record_memory_history(enabled=None)
    if args.real:
        result["step_seconds"] = seconds(lambda: step(model, optimizer, x))
        result |= profiled(args.dump, lambda: step(model, optimizer, x))
    with open(args.dump, "w", encoding="utf-8") as file:
        json.dump(result, file)


if __name__ == "__main__":
    main()
