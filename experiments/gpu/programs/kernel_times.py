"""Item 3: times of kernels, of submodules and of layers, and what the host pays for an op."""
import math
import time

import common
from probe import Probe

HIDDEN = [2048, 4096, 5120, 8192, 12288]
TOKENS = [1024, 2048, 4096, 8192]
TYPES = ["bfloat16", "float16", "float32", "tf32", "float8"]
OPS = ["layer_norm", "rms_norm", "gelu", "add", "softmax", "cross_entropy", "embedding", "adamw",
       "copy", "copy_host_to_device", "copy_device_to_host"]
# What is compiled: parts with their names.
OPS_COMPILED = {"compiled_ops 4096": ["layer_norm", "rms_norm", "gelu", "softmax"]}
SMALL = {"layers 2048": ["layer", "attention", "mlp"]}
COMPILED = {**OPS_COMPILED,
            **common.enough({**SMALL, "layers 8192": ["layer", "attention", "mlp"]}, SMALL)}
# Rows, columns and inner size of the products of a layer, over hidden width and tensor parallelism.
SHAPES = [(m, n * h // tp, h) for h in HIDDEN for tp in (1, 8) for m in TOKENS for n in (3, 4)]
CASES = ([f"matrix products, {name}: {len(SHAPES)} shapes" for name in TYPES]
         + [f"{op}: {len(HIDDEN)} widths" for op in OPS]
         + ["attention, forward and backward: 4 lengths, as torch chooses, flash and cuDNN",
            "4 ops of one width, eager and compiled",
            "layer, attention part and MLP of 2 widths, eager and compiled",
            "host issue cost per op, Python, TorchScript and driver", "launch floor"])
BUDGET_S = common.enough(18, 1)  # a type's sweep stops there and says how far it came
EQUAL = 1e-5  # of the largest element: a compiled result that differs by more has no time


def products(name):
    import torch
    kinds = {"tf32": torch.float32, "float8": torch.float8_e4m3fn}
    dtype = kinds.get(name) or getattr(torch, name)
    torch.backends.cuda.matmul.allow_tf32 = name == "tf32"
    one = torch.ones((), device="cuda")
    rows, begin = [], time.monotonic()
    # All shapes at a stride coprime to their number: a sweep cut short still covers the range.
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
    """By length: as torch chooses, which is what a program does, and by the two it chooses among."""
    import contextlib
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel
    table = {}
    for length in (1024, 2048, 4096, 8192):
        q, k, v = (torch.randn(1, 16, length, 128, device="cuda", dtype=torch.bfloat16,
                               requires_grad=True) for _ in range(3))
        chosen = SDPBackend(torch._fused_sdp_choice(q, k, v, is_causal=True)).name
        for backend in ("CHOSEN", "FLASH_ATTENTION", "CUDNN_ATTENTION"):
            def forward():
                with (contextlib.nullcontext() if backend == "CHOSEN"
                      else sdpa_kernel(getattr(SDPBackend, backend))):
                    return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            try:
                out = forward()
                gradient = torch.randn_like(out)
                table[f"{backend} {length}"] = {
                    "backend": chosen if backend == "CHOSEN" else backend,
                    "forward": common.device_seconds(forward),
                    "backward": common.device_seconds(
                        lambda: torch.autograd.grad(out, (q, k, v), gradient, retain_graph=True))}
            except RuntimeError as error:
                table[f"{backend} {length}"] = str(error)[:120]
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


def both(exact, fast, small, x):
    """Eager and compiled seconds of `fast`. The compiled one counts only where `exact`, the same in
    fp32, differs by no more than EQUAL."""
    import torch
    torch.backends.cuda.matmul.allow_tf32 = False
    # Each with its own shapes: after an earlier compilation this one would get dynamic shapes.
    torch._dynamo.reset()
    expected = exact(small)
    error = ((torch.compile(exact, dynamic=False)(small) - expected).abs().max()
             / expected.abs().max()).item()
    row = {"compiled_differs_by": error, "eager": common.device_seconds(lambda: fast(x))}
    if error <= EQUAL:
        torch._dynamo.reset()
        compiled = torch.compile(fast, dynamic=False)
        row["compiled"] = common.device_seconds(lambda: compiled(x))
    return row


def layers(hidden):
    import torch
    exact, fast = (Part(hidden, dtype).calls() for dtype in (torch.float32, torch.bfloat16))
    small = torch.randn(1, 256, hidden, device="cuda")
    x = torch.randn(1, 2048, hidden, device="cuda", dtype=torch.bfloat16)
    return {name: both(exact[name], fast[name], small, x) for name in exact}


def compiled_ops(hidden):
    import torch
    import torch.nn.functional as F
    x = torch.randn(4096, hidden, device="cuda")
    calls = {"layer_norm": lambda x: F.layer_norm(x, [hidden]),
             "rms_norm": lambda x: F.rms_norm(x, [hidden]),
             "gelu": lambda x: F.gelu(x, approximate="tanh"),
             "softmax": lambda x: torch.softmax(x, -1)}
    return {name: both(call, call, x, x.bfloat16()) for name, call in calls.items()}


def compiled_part(part):
    what, hidden = part.split()
    return (layers if what == "layers" else compiled_ops)(int(hidden))


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


def in_script(loop, *given):
    """Host seconds of a pass of a loop that libtorch runs in C++, without Python in between."""
    import torch
    count = 200
    values = []
    for _ in range(20):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        loop(*given, count)
        values.append((time.perf_counter() - begin) / count)
    torch.cuda.synchronize()
    return common.spread(values[3:])  # the first ones are those that TorchScript looks at


def scripts():
    """Of the same ops as in host()."""
    import torch
    unit = torch.jit.CompilationUnit("""
def add(x: Tensor, count: int):
    for _ in range(count):
        x.add_(1)

def matmul(y: Tensor, count: int):
    z = y
    for _ in range(count):
        z = y @ z
    return z
""")
    return {"add_": (unit.add, torch.zeros(64, device="cuda")),
            "matmul": (unit.matmul, torch.zeros(64, 64, device="cuda"))}


def host_cpp(path):
    """Seconds of the host for an op that C++ issues: by libtorch, and a bare launch by the driver."""
    import torch
    table = {name: in_script(*call) for name, call in scripts().items()}
    probe = Probe(path)
    seconds = []
    for _ in range(20):
        torch.cuda.synchronize()
        seconds.append(probe.launch_seconds(200, torch.cuda.current_stream()))
    torch.cuda.synchronize()
    probe.close()
    return {**table, "launch": common.spread(seconds)}


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
                     for backend, length in [case.split()] if backend == "CHOSEN"]
        elif what == "ops":
            rows += [(kind, "bfloat16", 4096, name, 1, 1, value[op]["p50"])
                     for op, kind in (("layer_norm", "native_layer_norm"), ("gelu", "gelu"),
                                      ("add", "add"), ("softmax", "_softmax"))]
    lines = [",".join(map(str, (*row, source))) for row in rows]
    return "\n".join(["kind,type,m,n,k,batch,seconds,source", *lines]) + "\n"


def goals(results):
    """What is compiled equals what is not."""
    return [common.goal(f"{part}, {name}: compiled differs from eager by",
                        results.part(part).get(name, {}).get("compiled_differs_by"), EQUAL)
            for part, names in COMPILED.items() for name in names]


def main():
    args = common.arguments(CASES)
    results = common.Results(args, common.machine())
    import torch
    results.add("host", host)
    results.add("host, C++", host_cpp, args.probe)
    for name in TYPES[:2]:
        sweep(results, name)
    results.add("attention", attention)
    for hidden in HIDDEN:
        results.add(f"ops {hidden}", small_ops, hidden)
    for name in TYPES[2:]:
        sweep(results, name)
    source = f"kernel_times.py on {torch.cuda.get_device_name(0)}".replace(",", " ")
    table = kernel_table(results.content["parts"], source)
    if table.count("\n") > 1:  # a replay refuses one without rows
        args.out.with_suffix(".csv").write_text(table)
    for part in COMPILED:
        results.add(part, compiled_part, part)
    results.finish(goals(results))


if __name__ == "__main__":
    main()
