"""What the programs of this folder share: arguments, the machine, timing, results."""
import argparse
import json
import pathlib
import shutil
import subprocess
import sys
import time
import traceback

DEVICE_LOST = 75  # exit code: an error that stays with the process; what is left runs in a new one


def arguments(cases):
    """Parses the command line. With --dry-run prints the cases and leaves."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--dry-run", action="store_true")
    parser.add_argument("--root", type=pathlib.Path, required=True)
    parser.add_argument("--build", type=pathlib.Path, required=True, help="with bin/prism-emulate")
    parser.add_argument("--probe", type=pathlib.Path, required=True)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--again", action="store_true", help="also what failed before")
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


class Results:
    """One JSON of parts, written after each. What an earlier call left there is not done again."""

    def __init__(self, args):
        self.path, self.again = args.out, args.again
        self.content = json.loads(self.path.read_text()) if self.path.exists() else {}
        here = machine()
        if self.content.get("machine", {}).get("gpu") != here["gpu"]:
            self.content = {"machine": here, "seconds": {}, "parts": {}}

    def add(self, name, call, *given):
        """The value of a part; None where it failed, which is its value in the file then."""
        parts = self.content["parts"]
        if name not in parts or (self.again and failed(parts[name])):
            begin = time.monotonic()
            try:
                parts[name] = call(*given)
            except Exception:  # whatever it is, the other parts go on
                parts[name] = {"failed": traceback.format_exc(limit=-3)[-1500:]}
            self.content["seconds"][name] = round(time.monotonic() - begin, 2)
            self.write()
            print(f"  {name}: {self.content['seconds'][name]} s"
                  + (f", failed: {parts[name]['failed']}" if failed(parts[name]) else ""), flush=True)
            if failed(parts[name]) and device_lost():
                sys.exit(DEVICE_LOST)
        return None if failed(parts[name]) else parts[name]

    def write(self):
        part = self.path.with_suffix(".part")
        part.write_text(json.dumps(self.content, indent=1) + "\n")
        part.replace(self.path)

    def finish(self):
        """Says that nothing is left; exits with 1 where a part failed."""
        self.content["complete"] = True
        self.write()
        sys.exit(any(failed(part) for part in self.content["parts"].values()))


def failed(part):
    return isinstance(part, dict) and "failed" in part


def device_lost():
    import torch
    try:
        torch.cuda.synchronize()
        return False
    except RuntimeError:
        return True


def prism(args, name):
    """A program of Prism."""
    path = args.build / "bin" / name
    if not path.exists():
        raise FileNotFoundError(f"{path}: run ./run.sh, or carry what collect.sh collects")
    return path


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
