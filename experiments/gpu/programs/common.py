"""What the programs of this folder share: arguments, the machine, timing, results."""
import argparse
import json
import pathlib
import shutil
import subprocess
import sys


def arguments(cases):
    """Parses the command line. With --dry-run prints the cases and leaves."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--dry-run", action="store_true")
    parser.add_argument("--root", type=pathlib.Path, required=True)
    parser.add_argument("--probe", type=pathlib.Path, required=True)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--complete", action="store_true", help="see virtual_truth.py")
    parsed = parser.parse_args()
    if parsed.dry_run:
        for case in cases:
            print("  would run:", case)
        sys.exit(0)
    return parsed


def machine():
    """GPU, driver and libraries; part of every result."""
    import torch
    driver = []
    if shutil.which("nvidia-smi"):
        driver = subprocess.run(
            ["nvidia-smi", "--query-gpu=name,driver_version,clocks.max.sm,memory.total",
             "--format=csv,noheader"], capture_output=True, text=True,
            check=False).stdout.splitlines()
    return {"gpu": torch.cuda.get_device_name(0),
            "compute": list(torch.cuda.get_device_capability(0)),
            "sm_count": torch.cuda.get_device_properties(0).multi_processor_count,
            "driver": driver,
            "torch": torch.__version__, "cuda": torch.version.cuda,
            "cudnn": torch.backends.cudnn.version(), "nccl": list(torch.cuda.nccl.version()),
            "command": sys.argv}


def write(args, result):
    """One JSON; also says on stdout what it holds."""
    result = {"machine": machine(), **result}
    args.out.write_text(json.dumps(result, indent=1) + "\n")
    print(f"  wrote {args.out.name}")


def spread(values):
    """Median, lowest, p90, p99 and highest of measurements."""
    ordered = sorted(values)
    at = lambda share: ordered[min(len(ordered) - 1, int(share * len(ordered)))]
    return {"count": len(ordered), "p50": at(0.5), "min": ordered[0], "p90": at(0.9), "p99": at(0.99),
            "max": ordered[-1]}


def device_seconds(call, repeats=10, inner=5):
    """Seconds of `call` on the device, by events around `inner` calls; spread over repeats."""
    import torch
    for _ in range(3):
        call()
    torch.cuda.synchronize()
    seconds = []
    for _ in range(repeats):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for _ in range(inner):
            call()
        end.record()
        end.synchronize()
        seconds.append(begin.elapsed_time(end) / 1e3 / inner)
    return spread(seconds)
