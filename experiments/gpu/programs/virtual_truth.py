"""Item 2: the same program on the real GPU and on the virtual device: kernels, grids, allocator.

Where the tree is not built, what the real GPU did is written alone; on any machine where it is built

  virtual_truth.py --root ROOT --build ROOT/build --probe - --out FILE --complete

then runs the virtual half and fills the comparison into the FILE of the real one.
"""
import difflib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import common
from stage import PRODUCTS, product as as_line

SMALL = [("gpt3-1.3b", "eager"), ("gpt3-1.3b", "fsdp2"), ("gpt3-1.3b", "megatron"),
         ("gpt3-1.3b", "compiled")]
PROGRAMS = common.enough([("gpt3-1.3b", "eager"), ("gpt3-13b", "eager"), ("gpt3-175b", "eager"),
                          ("llama3-70b", "eager"), *SMALL[1:]], SMALL)
CASES = [f"{preset}, {variant}: kernels, grids, allocator, real against virtual"
         for preset, variant in PROGRAMS]
CLUSTERS = {(8, 0): "a100-80-8x", (9, 0): "h100-8x", (10, 0): "b200-8x"}
PREDICTIONS = ["by the preset", "by measured kernels"]
SHOWN = 40
# Kernels inside libraries: of these the virtual device knows the call and the shape.
LIBRARY = re.compile(r"gemm|cutlass|cublas|nvjet|xmma|splitK|cudnn|void magma", re.IGNORECASE)


def cluster(machine):
    """The preset of the GPU."""
    if "H200" in machine["gpu"]:
        return "h200-8x"
    if "40GB" in machine["gpu"]:
        return "a100-40-8x"
    return CLUSTERS[tuple(machine["compute"])]


def stage(preset, variant, dump):
    return [sys.executable, str(pathlib.Path(__file__).with_name("stage.py")), "--preset", preset,
            "--variant", variant, "--dump", str(dump)]


def run_real(args, preset, variant, folder):
    dump = folder / "real.json"
    before = common.device_used()
    checked([*stage(preset, variant, dump), "--real"], 60, folder)
    real = json.loads(dump.read_text())
    real["device_bytes"] -= before
    return real


def run_virtual(args, name, preset, variant, folder):
    """What the virtual device recorded; kernels of its steady step from the graph."""
    dump, out = folder / "virtual.json", folder / "run"
    checked([common.prism(args, "prism-emulate"), "--target-gpus", "1", "--cluster", name,
             "--sandbox-ranks", "none", "--quiet", "--out", out, "--",
             *stage(preset, variant, dump)], 300, folder)
    ops = json.loads(checked([common.prism(args, "prism"), "graph", "show", out / "graph.prism", "--rank",
                              "0", "--ops", "1000000", "--format", "json"], 60, folder))["rank"]["ops"]
    virtual = json.loads(dump.read_text())
    shutil.copy(out / "graph.prism", kept_graph(args, f"{preset} {variant}"))
    virtual["step_seconds"] = {PREDICTIONS[0]: replayed(args, out / "graph.prism")}
    table = args.out.with_name("kernel_times.csv")
    if table.exists():
        virtual["step_seconds"][PREDICTIONS[1]] = replayed(
            args, out / "graph.prism", "--kernels", table)
    kernels = [op for op in ops if op["kind"] == "kernel"]
    virtual["kernels"] = [{"name": op["name"], "grid": op["grid"]} for op in kernels]
    virtual["products"] = [line for line in map(product, kernels) if line]
    return virtual


def kept_graph(args, name):
    return args.out.with_name(f"{name.replace(' ', '_')}.graph.prism")


def product(op):
    """A library's product as stage.py has it, from "kernel cublas... (aten::mm [2,3] float32, ...)"."""
    found = re.fullmatch(r"kernel cublas.*\((aten::\w+) (.*)\) on stream \d+", op["text"])
    if found is None or found[1] not in PRODUCTS:
        return ""
    return as_line(found[1], [sizes.split(",") for sizes in re.findall(r"\[([\d,]*)\]", found[2])])


def replayed(args, graph, *options):
    """Seconds of an iteration of the graph."""
    said = checked([common.prism(args, "prism"), "replay", graph, "--format", "json", *options], 60,
                   graph.parent)
    return json.loads(said)["iteration_time_s"]


def short(name):
    """Names as both sides write them: no return type, no blanks."""
    return re.sub(r"\s+", "", re.sub(r"^void ", "", name))


def differences(real, virtual):
    """Lines of a diff, at most SHOWN, and how many there are."""
    lines = [line for line in difflib.unified_diff(virtual, real, "virtual", "real", n=0, lineterm="")
             if not line.startswith(("---", "+++", "@@"))]
    return {"count": len(lines), "of": len(real), "lines": lines[:SHOWN]}


def rotated(virtual, real, name=lambda entry: entry):
    """The virtual iteration, which begins where the recorder's rule says, begun as the real step."""
    names, wanted = list(map(name, virtual)), list(map(name, real))

    def equal(begin):
        return sum(a == b for a, b in zip(names[begin:] + names[:begin], wanted))
    begin = max(range(len(virtual)), key=equal, default=0)
    return virtual[begin:] + virtual[:begin]


def compare(real, virtual):
    plain = [[k for k in side["kernels"] if not LIBRARY.search(k["name"])]
             for side in (real, virtual)]
    plain[1] = rotated(plain[1], plain[0], lambda kernel: short(kernel["name"]))
    names = [[short(k["name"]) for k in side] for side in plain]
    grids = [[f"{short(k['name'])} {list(k['grid'])}" for k in side] for side in plain]
    traces = [[" ".join(map(str, entry)) for entry in side["allocator"]] for side in (real, virtual)]
    return {"kernel_names": differences(*names), "kernel_grids": differences(*grids),
            "matrix_products": differences(real["products"],
                                           rotated(virtual["products"], real["products"])),
            "allocator": differences(*traces),
            "library_kernels": [sum(bool(LIBRARY.search(k["name"])) for k in side["kernels"])
                                for side in (real, virtual)],
            "peak_allocated": [real["peak_allocated"], virtual["peak_allocated"]],
            "peak_reserved": [real["peak_reserved"], virtual["peak_reserved"]],
            "device_bytes": [real["device_bytes"], virtual["device_bytes"]],
            "step_seconds": {"real": common.spread(real["step_seconds"]), **virtual["step_seconds"]}}


def in_folder(call, *arguments):
    with tempfile.TemporaryDirectory() as name:
        return call(*arguments, pathlib.Path(name))


def checked(command, seconds, folder, **environment):
    """Runs it, with results of Inductor of its own in `folder`; what it said. Where it fails the error
    has the end of that."""
    caches = {"TORCHINDUCTOR_CACHE_DIR": str(pathlib.Path(folder) / "inductor")}
    inherited = dict(os.environ)
    if command[0] != sys.executable:
        inherited.pop("LD_PRELOAD", None)  # the stand-in's; prism-emulate preloads what is needed
    done = subprocess.run(list(map(str, command)), cwd=folder, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          errors="replace", timeout=seconds * common.PATIENCE, check=False,
                          env=inherited | caches | environment)
    if done.returncode != 0:
        raise RuntimeError(f"{command[0]} ends with {done.returncode}: {done.stdout[-1200:]}")
    return done.stdout


def compared(args, machine, real, preset, variant, folder):
    return compare(real, run_virtual(args, cluster(machine), preset, variant, folder))


def off(pair):
    """By which share of the first the second differs."""
    return abs(pair[1] / pair[0] - 1)


def goals(name, found):
    """Of one program; `found`: what compare() gave, {} where there is nothing."""
    rows = [common.goal(f"{name}: {what.replace('_', ' ')} that differ", found.get(what, {}).get("count"), 0)
            for what in ("kernel_names", "kernel_grids", "matrix_products", "allocator")]
    rows += [common.goal(f"{name}: bytes by which {what.replace('_', ' ')} differs",
                         abs(found[what][1] - found[what][0]) if found else None, 0)
             for what in ("peak_allocated", "peak_reserved")]
    rows.append(common.goal(f"{name}: share by which device memory differs",
                            off(found["device_bytes"]) if found else None, 0.01))
    seconds = found.get("step_seconds", {})
    rows += [common.goal(f"{name}: share by which the step predicted {how} differs",
                         off([seconds["real"]["p50"], seconds[how]]) if how in seconds else None, 0.03)
             for how in PREDICTIONS]
    return rows


def complete(args, results):
    """The virtual half of what the real GPU gave, and both beside each other; what `prism calibrate`
    takes: a graph with the seconds of its step, for each."""
    told, runs = [], []
    for preset, variant in PROGRAMS:
        name = f"{preset} {variant}"
        if real := results.part(name):
            results.add(f"compared {name}", in_folder, compared, args, results.content["machine"], real,
                        preset, variant)
        else:
            print(f"  {name}: no real half")
        found = results.part(f"compared {name}")
        if found:
            runs.append(f"{kept_graph(args, name).name}={found['step_seconds']['real']['p50']:.6g}\n")
        told += goals(name, found)
    args.out.with_name("calibrate.txt").write_text("".join(runs))
    results.finish(told)


def main():
    args = common.arguments(CASES)
    if args.complete:
        complete(args, common.Results(args, None))
    results = common.Results(args, common.machine())
    for preset, variant in PROGRAMS:
        results.add(f"{preset} {variant}", in_folder, run_real, args, preset, variant)
    results.finish([])


if __name__ == "__main__":
    main()
