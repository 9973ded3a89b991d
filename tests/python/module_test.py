"""The Python package: forecasts are those of --dry-run, wrong input is an exception with the exit
code, and a run's folder is read without and with numpy. Runs on a Python without torch."""

import json
import pathlib
import subprocess
import sys
import tempfile

import prism_emulator as prism
from prism_emulator import _install, _options, checks


def error_of(call, *arguments, **named):
    try:
        call(*arguments, **named)
    except prism.PrismError as error:
        return type(error).__name__, error.exit_code, str(error)
    return "taken"


# A forecast is the program's.
forecast = prism.estimate(model="llama3-8b", gpus=64, tp=2, micro_batch_size=2)
text = subprocess.run(
    [_install.program("prism-emulate"), "--dry-run", "--format", "json", "--model", "llama3-8b",
     "--target-gpus", "64", "--tp", "2", "--micro-batch-size", "2"],
    check=True, capture_output=True, text=True).stdout
assert forecast.plan == json.loads(text)
assert forecast.iteration_time_s == forecast.plan["forecast"]["iteration_time_s"] > 0
assert forecast.device_bytes > forecast.allocated_bytes > 0

# Whether a job fits, and which rank does not.
assert prism.fits(model="llama3-8b", gpus=64)
full = prism.fits(model="llama3-70b", gpus=8, tp=8, pp=1)
assert not full and full.rank == 0 and full.peak_bytes > full.gpu_memory_bytes
none = prism.fits(model="llama3-70b", gpus=8)
assert not none and none.rank is None and "no layout" in none.reason

# Keywords are options.
assert _options.words({"gpus": 8, "sequence_parallel": False, "strict": True, "force": False,
                       "out": pathlib.Path("a"), "rank": [0, 3], "perturb": ["x", "y"]}) == [
    "--target-gpus", "8", "--sequence-parallel", "off", "--strict", "--out", "a",
    "--sandbox-ranks", "0,3", "--perturb", "x", "--perturb", "y"]
kind, code, message = error_of(prism.estimate, micro_batch=2)
assert (kind, code) == ("UsageError", 2) and "micro_batch_size" in message
assert error_of(prism.estimate, model="gpt3-none")[:2] == ("UsageError", 2)
assert error_of(prism.estimate, config="nowhere.toml")[:2] == ("FileError", 3)
assert error_of(prism.run, gpus=8, tp=3, quiet=True)[:2] == ("UsageError", 2)
assert error_of(prism.run, ["/nowhere/program"], gpus=8, quiet=True)[1] in (1, 2, 3, 5)

# A check: the report as objects, a fault is no exception, wrong input is one.
fault = {"kind": "size", "sentence": "rank 1 reduces more", "ranks": [0, 1], "waiting": [0],
         "calls": [{"rank": 1, "call": "all_reduce", "group": "g", "file": "a.py", "line": 3}],
         "notes": []}
report = checks._check_of({"verdict": "fault", "sentence": "rank 1 reduces more",
                           "checked_until": "exit", "assumed": [], "warnings": [],
                           "faults": [fault]})
assert not report and report.faults[0].calls[0].line == 3 and str(report) == fault["sentence"]
assert checks._check_of({"sentence": "no fault", "checked_until": "step 3", "assumed": [],
                         "warnings": [], "faults": []})
assert error_of(prism.check, None)[1] == 2
assert error_of(prism.check, [sys.executable, "-c", ""], gpus=0, quiet=True)[:2] == (
    "UsageError", 2)
assert error_of(prism.check, [sys.executable, "-c", ""], gpus=8, record_ranks=[9],
                quiet=True)[:2] == ("UsageError", 2)
assert error_of(prism.check, ["/nowhere/program"], gpus=8, quiet=True)[:2] == ("FileError", 3)

# What a run left.
with tempfile.TemporaryDirectory() as folder:
    root = pathlib.Path(folder)
    (root / "logs").mkdir()
    for rank in (10, 9):
        (root / f"logs/rank{rank}.log").write_text(f"step of {rank}\n")
    (root / "summary.json").write_text(json.dumps({
        "job": {"name": "small", "target_gpus": 2048}, "iteration_time_s": 1.5,
        "breakdown": {"compute": 1.0}, "peak_memory": {"rank": 1, "device_bytes": 2**31}}))
    (root / "ranks.csv").write_text(
        "rank,role,peak_allocated_bytes,peak_reserved_bytes,device_bytes\n"
        "0,stage 0,1,2,3\n1,stage 1,4,5,6\n")
    run = prism.Run(root)
    assert repr(run) == ("<prism.Run small on 2,048 GPUs: 1.5 s an iteration, peak 2.00 GiB on "
                         "rank 1>")
    assert list(run.memory["device"]) == [3, 6] and run.ranks["role"] == ["stage 0", "stage 1"]
    assert list(run.logs) == [9, 10] and run.logs[10] == "step of 10\n"
    assert isinstance(run.memory["device"], list) == ("numpy" not in sys.modules)
