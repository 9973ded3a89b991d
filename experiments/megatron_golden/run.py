#!/usr/bin/env python3
"""Runs published Megatron-LM test configurations, unedited, as their last rank on the virtual device
and compares allocated bytes with the published ones.

  run.py CHECKOUT [--config ID]... [--order descending|ascending]... [--python PYTHON]
         [--with-extensions] [--iterations N] [--results FILE]

CHECKOUT is a working tree of NVIDIA/Megatron-LM at the revision to run. IDs are those of
../shared/traces/megatron-golden/configs.jsonl.gz without environment and platform
(gpt/gpt3_mcore_tp1_pp4). PYTHON has torch and what Megatron imports. --with-extensions adds
absent_extensions/, the stand-ins for apex. Results are appended to FILE, one JSON object a run, and
printed beside the published rows.
"""

import argparse
import csv
import gzip
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
SHARED = ROOT.parent / "shared"
MEASURES = ("mem-allocated-bytes", "mem-max-allocated-bytes")
WORLD = 8  # one node, the suite's default

# Paths that the publication left out, and what only says where results go.
DROPPED = {"load", "save", "data-path", "vocab-file", "merge-file", "data-cache-path", "async-save",
           "tokenizer-type"}
# Token ids without a vocabulary: 50,256 words and the end of text, as in GPT-2's. Gloo groups take
# no device memory.
ADDED = {"eval-iters": 0, "mock-data": True, "tokenizer-type": "NullTokenizer",
         "vocab-size": 50256, "disable-gloo-process-groups": True}


def configurations():
    with gzip.open(SHARED / "traces/megatron-golden/configs.jsonl.gz", "rt") as file:
        return [json.loads(line) for line in file]


def published(test_case):
    """(id, platform, date, current, first-step peak, peak) of the rows of a test case."""
    with open(SHARED / "groundtruth/megatron_lm_golden_memory.csv", newline="") as file:
        for row in csv.DictReader(file):
            values = dict(re.findall(r"(\w+_bytes)=(\d+)", row["extra"]))
            if row["model"] == test_case and len(values) == 3:
                yield (row["id"][-4:], row["gpu"], row["framework_version"],
                       int(values["allocated_current_bytes"]),
                       int(values["first_step_peak_bytes"]), int(values["peak_bytes"]))


def arguments(config, iterations, tensorboard):
    merged = {key: value for key, value in config["args"].items() if key not in DROPPED}
    merged |= ADDED | {"train-iters": iterations, "log-interval": 1,
                       "tensorboard-dir": tensorboard}
    line = []
    for key, value in merged.items():
        if value is not False and value is not None:
            line.append(f"--{key}")
        if not isinstance(value, bool) and value is not None:
            line += [str(word) for word in value] if isinstance(value, list) else str(value).split()
    return line


def read_memory(python, tensorboard):
    """Current bytes, first peak and last peak from the program's own log."""
    code = ("import json, sys\n"
            "from tensorboard.backend.event_processing.event_accumulator import EventAccumulator\n"
            "log = EventAccumulator(sys.argv[1]); log.Reload()\n"
            "known = log.Tags()['scalars']\n"
            "print(json.dumps([[int(e.value) for e in log.Scalars(t)] if t in known else []"
            " for t in sys.argv[2:]]))\n")
    output = subprocess.run([python, "-c", code, tensorboard, *MEASURES], check=True,
                            capture_output=True, text=True).stdout
    current, peak = json.loads(output.splitlines()[-1])
    if not current or not peak:
        sys.exit("the program logged no iteration (did the broadcast of an absent root end it?)")
    return current[-1], peak[0], peak[-1]


def run(options, test_case, order):
    config = next(c for c in configurations() if c["id"].startswith(test_case + "/"))
    script = "pretrain_bert.py" if test_case.startswith("bert/") else "pretrain_gpt.py"
    path = [str(options.checkout), *filter(None, [os.environ.get("PYTHONPATH")])]
    if options.with_extensions:
        path.insert(0, str(HERE / "absent_extensions"))
    environment = os.environ | {k: str(v) for k, v in config["env"].items() if "$" not in str(v)}
    environment |= {"PYTHONPATH": ":".join(path), "PYTHONWARNINGS": "ignore"}
    with tempfile.TemporaryDirectory() as tensorboard:
        command = [str(ROOT / "build/tests/record_rank"), str(WORLD), str(WORLD - 1), "90", "81559",
                   order, options.python, str(options.checkout / script),
                   *arguments(config, options.iterations, tensorboard)]
        done = subprocess.run(command, env=environment, cwd=options.checkout, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if done.returncode != 0:
            sys.exit(f"{test_case}: exit code {done.returncode}\n{done.stdout[-4000:]}")
        current, first, last = read_memory(options.python, tensorboard)
    return {"config": test_case, "order": order, "current": current, "first_step_peak": first,
            "peak": last}


def show(result):
    print(f"\n{result['config']} ({result['order']})")
    print(f"  {'':28}{'current':>14}{'first peak':>14}{'peak':>14}")
    ours = [result["current"], result["first_step_peak"], result["peak"]]
    print(f"  {'measured':28}" + "".join(f"{value:14,}" for value in ours))
    for row, platform, date, *values in published(result["config"]):
        name = f"row {row} {platform} {date}"
        print(f"  {name:28}" + "".join(f"{value:14,}" for value in values))
        print(f"  {'  measured less published':28}"
              + "".join(f"{a - b:+14,}" for a, b in zip(ours, values)))


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", type=pathlib.Path)
    parser.add_argument("--config", action="append", default=[])
    parser.add_argument("--order", action="append", default=[])
    parser.add_argument("--python", default=str(ROOT / ".venv/bin/python"))
    parser.add_argument("--with-extensions", action="store_true")
    parser.add_argument("--iterations", type=int, default=3)
    parser.add_argument("--results", type=pathlib.Path)
    options = parser.parse_args()
    options.checkout = options.checkout.resolve()
    for order in options.order or ["descending"]:
        for test_case in options.config:
            result = run(options, test_case, order)
            show(result)
            sys.stdout.flush()
            if options.results:
                with open(options.results, "a") as file:
                    file.write(json.dumps(result) + "\n")


main()
