"""Item 3: times of kernels, of submodules and of layers, and what the host pays for an op."""
import math
import time

import common

HIDDEN = [2048, 4096, 5120, 8192, 12288]
TOKENS = [1024, 2048, 4096, 8192]
TYPES = ["bfloat16", "float16", "float32", "tf32", "float8"]
OPS = ["layer_norm", "rms_norm", "gelu", "add", "softmax", "cross_entropy", "embedding", "adamw",
       "copy", "copy_host_to_device", "copy_device_to_host"]
# Rows, columns and inner size of the products of a layer, over hidden width and tensor parallelism.
SHAPES = [(m, n * h // tp, h) for h in HIDDEN for tp in (1, 8) for m in TOKENS for n in (3, 4)]
CASES = ([f"matrix products, {name}: {len(SHAPES)} shapes" for name in TYPES]
         + [f"{op}: {len(HIDDEN)} widths" for op in OPS]
         + ["attention, forward and backward: 4 lengths, flash and cuDNN",
            "layer, attention part and MLP of 2 widths, eager and compiled",
            "host issue cost per op, Python", "launch floor"])
BUDGET_S = 18  # a type's sweep stops there and says how far it came


def products(name):
    import torch
    kinds = {"tf32": torch.float32, "float8": torch.float8_e4m3fn}
    dtype = kinds.get(name) or getattr(torch, name)
    torch.backends.cuda.matmul.allow_tf32 = name == "tf32"
    one = torch.ones((), device="cuda")
    rows, begin = [], time.monotonic()
    # Every shape at a stride that is prime to their number: a sweep cut short still covers all.
    for i in range(len(SHAPES)):
        m, n, k = SHAPES[i * 37 % len(SHAPES)]
        if time.monotonic() - begin > BUDGET_S:
            break
        a = torch.randn(m, k, device="cuda").to(dtype)
        b = torch.randn(n, k, device="cuda").to(dtype).t()
        if name == "float8":
            call = lambda: torch._scaled_mm(a, b, one, one, out_dtype=torch.bfloat16)
        else:
            call = lambda: a @ b
        rows.append({"m": m, "n": n, "k": k, "seconds": common.device_seconds(call, 5, 3)})
    return rows


def fit(rows):
    """Median error of flop / (rate × k / (k + half_k)) + floor on shapes that were not fitted."""
    points = [(2 * r["m"] * r["n"] * r["k"], r["k"], r["seconds"]["p50"]) for r in rows]
    held, left = points[::2], points[1::2]
    if len(left) < 4 or min(t for _, _, t in points) <= 0:
        return None
    best = None
    for half_k in (0, 64, 128, 256, 512, 1024):
        rates = sorted(flop * (k + half_k) / k / t for flop, k, t in held)
        for rate in rates[len(rates) // 4:]:
            error = sum(abs(math.log(flop * (k + half_k) / k / rate / t)) for flop, k, t in held)
            best = min(best or (math.inf,), (error, half_k, rate))
    _, half_k, rate = best
    errors = [abs(flop * (k + half_k) / k / rate / t - 1) for flop, k, t in left]
    return {"half_k": half_k, "flops": rate, "error_on_left_out": common.spread(errors)}


def small_ops(hidden):
    import torch
    import torch.nn.functional as F
    tokens, vocab = 4096, 51_200
    x = torch.randn(tokens, hidden, device="cuda", dtype=torch.bfloat16)
    y = torch.empty_like(x)
    weight = torch.ones(hidden, device="cuda", dtype=torch.bfloat16)
    table = torch.randn(vocab, hidden, device="cuda", dtype=torch.bfloat16)
    logits = torch.randn(1024, vocab, device="cuda")
    ids = torch.randint(vocab, (tokens,), device="cuda")
    host = torch.empty(tokens, hidden, dtype=torch.bfloat16, pin_memory=True)
    parameter = torch.nn.Parameter(torch.randn(hidden, 4 * hidden, device="cuda"))
    parameter.grad = torch.randn_like(parameter)
    optimizer = torch.optim.AdamW([parameter], fused=True)
    calls = {"layer_norm": lambda: F.layer_norm(x, [hidden], weight, weight),
             "rms_norm": lambda: F.rms_norm(x, [hidden], weight),
             "gelu": lambda: F.gelu(x, approximate="tanh"), "add": lambda: x + y,
             "softmax": lambda: torch.softmax(x, -1),
             "cross_entropy": lambda: F.cross_entropy(logits, ids[:1024]),
             "embedding": lambda: F.embedding(ids, table), "adamw": optimizer.step,
             "copy": lambda: y.copy_(x),
             "copy_host_to_device": lambda: x.copy_(host, non_blocking=True),
             "copy_device_to_host": lambda: host.copy_(x, non_blocking=True)}
    return {op: common.device_seconds(calls[op]) for op in OPS}


def attention():
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel
    table = {}
    for length in (1024, 2048, 4096, 8192):
        for backend in (SDPBackend.FLASH_ATTENTION, SDPBackend.CUDNN_ATTENTION):
            q, k, v = (torch.randn(1, 16, length, 128, device="cuda", dtype=torch.bfloat16,
                                   requires_grad=True) for _ in range(3))

            def forward():
                with sdpa_kernel(backend):
                    return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            try:
                out = forward()
                gradient = torch.randn_like(out)
                table[f"{backend.name} {length}"] = {
                    "forward": common.device_seconds(forward),
                    "backward": common.device_seconds(
                        lambda: torch.autograd.grad(out, (q, k, v), gradient, retain_graph=True))}
            except RuntimeError as error:
                table[f"{backend.name} {length}"] = str(error)[:120]
    return table


class Part:
    """A layer and its two halves; functions of the input, so that each is compiled by itself."""

    def __init__(self, hidden, dtype):
        import torch
        self.layer = torch.nn.TransformerEncoderLayer(
            hidden, hidden // 128, 4 * hidden, dropout=0, activation="gelu", batch_first=True,
            norm_first=True, device="cuda", dtype=dtype)

    def calls(self):
        layer = self.layer
        return {"layer": layer, "attention": lambda x: x + layer._sa_block(layer.norm1(x), None, None),
                "mlp": lambda x: x + layer._ff_block(layer.norm2(x))}


def layers(hidden):
    """A compiled part counts only where it equals the eager one within 1e-5, in fp32."""
    import torch
    table = {}
    exact = Part(hidden, torch.float32).calls()
    fast = Part(hidden, torch.bfloat16).calls()
    for name in exact:
        torch.backends.cuda.matmul.allow_tf32 = False
        small = torch.randn(1, 256, hidden, device="cuda")
        expected = exact[name](small)
        error = ((torch.compile(exact[name])(small) - expected).abs().max()
                 / expected.abs().max()).item()
        x = torch.randn(1, 2048, hidden, device="cuda", dtype=torch.bfloat16)
        row = {"compiled_differs_by": error,
               "eager": common.device_seconds(lambda: fast[name](x))}
        if error < 1e-5:
            compiled = torch.compile(fast[name])
            row["compiled"] = common.device_seconds(lambda: compiled(x))
        table[name] = row
    return table


def host():
    """Seconds of the host for an op, with nothing to wait for, and of an empty launch on the device."""
    import torch
    x = torch.zeros(64, device="cuda")
    y = torch.zeros(64, 64, device="cuda")
    event = torch.cuda.Event()
    calls = {"add_": lambda: x.add_(1), "matmul": lambda: y @ y, "zero_": x.zero_,
             "event_record": event.record,
             "event_wait": lambda: torch.cuda.current_stream().wait_event(event)}
    table = {}
    for name, call in calls.items():
        values = []
        for _ in range(20):
            torch.cuda.synchronize()
            begin = time.perf_counter()
            for _ in range(200):
                call()
            values.append((time.perf_counter() - begin) / 200)
        table[name] = common.spread(values)
    torch.cuda.synchronize()
    table["launch_floor"] = common.device_seconds(lambda: x.add_(1), 20, 200)
    return table


def sweep(results, name):
    rows = results.add(f"products {name}", products, name)
    if rows:
        results.add(f"fit {name}", fit, rows)


def kernel_table(parts, source):
    """What `prism replay --kernels` takes: ops that launch one kernel each."""
    rows = []
    for part, value in parts.items():
        what, _, name = part.partition(" ")
        if common.failed(value):
            continue
        if what == "products":
            rows += [("matmul", name, row["m"], row["n"], row["k"], 1, row["seconds"]["p50"])
                     for row in value]
        elif what == "attention":
            rows += [("attention", "bfloat16", length, length, 128, 16, times["forward"]["p50"])
                     for case, times in value.items() if isinstance(times, dict)
                     for backend, length in [case.split()] if backend.startswith("FLASH")]
        elif what == "ops":
            rows += [(kind, "bfloat16", 4096, name, 1, 1, value[op]["p50"])
                     for op, kind in (("layer_norm", "native_layer_norm"), ("gelu", "gelu"),
                                      ("add", "add"), ("softmax", "_softmax"), ("copy", "copy"))]
    lines = [",".join(map(str, (*row, source))) for row in rows]
    return "\n".join(["kind,type,m,n,k,batch,seconds,source", *lines]) + "\n"


def main():
    args = common.arguments(CASES)
    results = common.Results(args)
    import torch
    results.add("host", host)
    for name in TYPES[:2]:
        sweep(results, name)
    results.add("attention", attention)
    for hidden in HIDDEN:
        results.add(f"ops {hidden}", small_ops, hidden)
    for name in TYPES[2:]:
        sweep(results, name)
    source = f"kernel_times.py on {torch.cuda.get_device_name(0)}".replace(",", " ")
    args.out.with_suffix(".csv").write_text(kernel_table(results.content["parts"], source))
    for hidden in (2048, 8192):
        results.add(f"layers {hidden}", layers, hidden)
    results.finish()


main()
