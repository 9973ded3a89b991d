"""What the programs of this folder share: arguments, the machine, timing, results."""
import argparse
import contextlib
import faulthandler
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import threading
import time
import traceback

FAILED, MISSED = 1, 4  # exit codes: a part failed or is not there; all are, a goal was missed
DEVICE_LOST = 75  # an error that stays with the process; what is left runs in a new one
CYCLES_PER_S = 2.5e9  # no GPU here has a faster clock
LONGEST_PAUSE_S = 2
# Tests bring a GPU without kernels, which shows that every part works, on a few cores.
STAND_IN = "PRISM_TEST_DEVICE" in os.environ
PATIENCE = 10 if STAND_IN else 1
PART_S = 60 * PATIENCE
RETURNS_S = 5  # after that a part that does not come back is given up with its process


def arguments(cases):
    """Parses the command line. With --dry-run prints the cases and leaves."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--dry-run", action="store_true")
    for option, text in (("--root", "of the tree"), ("--build", "with bin/prism-emulate"),
                         ("--probe", "libprism_probe.so"), ("--out", "the JSON that is written")):
        parser.add_argument(option, type=lambda path: pathlib.Path(path).resolve(), required=True,
                            help=text)
    parser.add_argument("--again", action="store_true", help="also what failed before")
    parser.add_argument("--complete", action="store_true",
                        help="the virtual half of what a real GPU gave; needs no GPU")
    parsed = parser.parse_args()
    if parsed.dry_run:
        for case in cases:
            print("  would run:", case)
        sys.exit(0)
    return parsed


def enough(cases, on_stand_in):
    """All cases; on the tests' stand-in those that differ in more than a size."""
    return on_stand_in if STAND_IN else cases


# The program that is timed as a whole, with its arguments.
STEP = ["experiments/02_ddp/train.py", "--layers", "4",
        *enough([], ["--hidden", "256", "--heads", "2", "--vocab", "1024"])]


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


def goal(name, value, at_most):
    """A goal beside what was measured: met, missed, or None where the measurement is not there."""
    return {"goal": name, "value": value, "at_most": at_most,
            "met": None if value is None else value <= at_most}


def device_used():
    """Bytes of the first GPU that are in use before a program comes; 0 where nobody tells."""
    if not shutil.which("nvidia-smi"):
        return 0
    said = subprocess.run(["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits",
                           "--id=0"], capture_output=True, text=True, check=False).stdout
    return int(said) << 20 if said.strip().isdigit() else 0


class Results:
    """One JSON of parts, written after each. What an earlier call left there is not done again.

    `here` is the machine with its GPU; None where only what was measured elsewhere is looked at.
    """

    def __init__(self, args, here):
        self.path, self.again, self.on_gpu = args.out, args.again, here is not None
        self.content = json.loads(self.path.read_text()) if self.path.exists() else {}
        if self.on_gpu and self.content.get("machine", {}).get("gpu") != here["gpu"]:
            self.content = {"machine": here, "seconds": {}, "parts": {}}

    def part(self, name):
        """What an earlier call or this one found; {} where that is nothing."""
        found = self.content["parts"].get(name, {})
        return {} if failed(found) else found

    def add(self, name, call, *given):
        """The value of a part; None where it failed, which is its value in the file then."""
        parts = self.content["parts"]
        if name not in parts or (self.again and failed(parts[name])):
            print(f"  {name} ...", flush=True)
            begin = time.monotonic()
            try:
                with self.limited(name):
                    parts[name] = call(*given)
            except Exception:  # whatever it is, the other parts go on
                parts[name] = {"failed": traceback.format_exc(limit=-3)[-1500:]}
                self.keep_calls(name)
            self.content["seconds"][name] = round(time.monotonic() - begin, 2)
            self.write()
            print(f"  {name}: {self.content['seconds'][name]} s"
                  + (f", failed: {parts[name]['failed']}" if failed(parts[name]) else ""), flush=True)
            if failed(parts[name]) and self.on_gpu and device_lost():
                sys.exit(DEVICE_LOST)
        return None if failed(parts[name]) else parts[name]

    @contextlib.contextmanager
    def limited(self, name):
        """On a GPU a part has PART_S. One that is not back soon after that, because a call hangs,
        leaves its stacks and ends the process; a new one does the next part."""
        for left in self.calls():
            left.unlink()
        if not self.on_gpu:
            yield
            return
        os.environ["PRISM_CALLS"] = str(self.path.with_suffix(".calls"))

        def late(*_):
            raise TimeoutError(f"{name} takes longer than {PART_S} s")

        def give_up():
            faulthandler.dump_traceback(all_threads=True)
            sys.stderr.flush()
            self.content["parts"][name] = {"failed": f"a call hangs beyond {PART_S} s; stacks in the log"}
            self.content["seconds"][name] = PART_S + RETURNS_S
            self.keep_calls(name)
            self.write()
            os._exit(DEVICE_LOST)

        before = signal.signal(signal.SIGALRM, late)
        watch = threading.Timer(PART_S + RETURNS_S, give_up)
        watch.daemon = True
        watch.start()
        signal.setitimer(signal.ITIMER_REAL, PART_S)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            watch.cancel()
            signal.signal(signal.SIGALRM, before)

    def calls(self):
        return sorted(self.path.parent.glob(self.path.stem + ".calls.*"))

    def keep_calls(self, name):
        """The last calls of each process under the shim (shim/gpu/last_calls.h), in their order, beside
        the results."""
        for number, found in enumerate(self.calls()):
            lines = [line.split() for line in found.read_text(errors="replace").replace(
                "\0", "").splitlines()]
            ordered = sorted((line for line in lines if len(line) == 3), key=lambda line: int(line[0]))
            kept = self.path.with_suffix(f".{name.replace(' ', '_').replace('/', '_')}.{number}.last_calls")
            kept.write_text("".join(" ".join(line) + "\n" for line in ordered))
            found.unlink()

    def write(self):
        part = self.path.with_suffix(".part")
        part.write_text(json.dumps(self.content, indent=1) + "\n")
        part.replace(self.path)

    def finish(self, goals):
        """Says that nothing is left and which goals are met; leaves with the exit code of that."""
        self.content["goals"] = goals
        self.write()
        for left in self.calls():
            left.unlink()
        for line in map(told, goals):
            print(" ", line)
        met = [row["met"] for row in goals]
        if None in met or any(map(failed, self.content["parts"].values())):
            sys.exit(FAILED)
        sys.exit(MISSED if False in met else 0)


def told(row):
    """A goal as a line."""
    said = {True: "met", False: "missed", None: "not measured"}[row["met"]]
    value = f"{row['value']:.4g}, " if isinstance(row["value"], float) else f"{row['value']}, "
    return f"{said}: {row['goal']}: {value if row['met'] is not None else ''}at most {row['at_most']}"


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
    """Seconds of `call` on the device, by events around `inner` calls; spread over repeats.

    The device is kept busy until all of them are queued, so that none waits for the host: what is
    measured is a kernel of a full stream, from its start to the next one's.
    """
    import torch
    for _ in range(3):
        call()
    seconds, pause_s = [], 1e-3
    while len(seconds) < repeats:
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda.synchronize()
        torch.cuda._sleep(int(pause_s * CYCLES_PER_S))
        begin.record()
        for _ in range(inner):
            call()
        end.record()
        queued = not begin.query()
        end.synchronize()
        if queued:
            seconds.append(begin.elapsed_time(end) / 1e3 / inner)
        elif pause_s < LONGEST_PAUSE_S:
            pause_s *= 2
        else:
            raise RuntimeError(f"the device was idle for {pause_s} s before the calls were queued: "
                               "one of them waits for it")
    return spread(seconds)
