#!/usr/bin/env python3
"""Runs published Megatron-LM test configurations, unedited, as their last rank on the virtual device
and compares allocated bytes with the published ones.

  run.py CHECKOUT --revision NAME --platform dgx_a100|dgx_h100|dgx_gb200 --config ID [--config ID]...
         [--order profile|descending|ascending]... [--python PYTHON] [--with-extensions]
         [--with-flash-attention] [--iterations N] [--results FILE]
  run.py --show FILE

CHECKOUT is a working tree of NVIDIA/Megatron-LM, NAME its revision. IDs are those of
../shared/traces/megatron-golden/configs.jsonl.gz without environment and platform
(gpt/gpt3_mcore_tp1_pp4). PYTHON has torch and what Megatron imports. --with-extensions adds
absent_extensions/, the stand-ins for apex, --with-flash-attention the one for flash-attn. Results
are appended to FILE, one JSON object a run, and printed beside the published rows; --show prints
those of a file.
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
# Cluster presets. There is none for GB200, which has B200's compute capability.
CLUSTERS = {"dgx_a100": "a100-80-8x", "dgx_h100": "h100-8x", "dgx_gb200": "b200-8x"}
KEYS = ("current", "first_step_peak", "peak")

# Paths that the publication left out, and options that only say where results go.
DROPPED = {"load", "save", "data-path", "vocab-file", "merge-file", "data-cache-path", "async-save",
           "tokenizer-type"}
# Token ids without a vocabulary: 50,256 words and the end of text, as in GPT-2's. Gloo groups take
# no device memory.
ADDED = {"eval-iters": 0, "disable-gloo-process-groups": True}
GPT_DATA = {"mock-data": True, "tokenizer-type": "NullTokenizer", "vocab-size": 50256}


def configurations():
    with gzip.open(SHARED / "traces/megatron-golden/configs.jsonl.gz", "rt") as file:
        return [json.loads(line) for line in file]


def published(test_case):
    """The rows of a test case that have all three values."""
    with open(SHARED / "groundtruth/megatron_lm_golden_memory.csv", newline="") as file:
        for row in csv.DictReader(file):
            values = dict(re.findall(r"(\w+_bytes)=(\d+)", row["extra"]))
            if row["model"] == test_case and len(values) == 3:
                environment, platform = re.search(r"golden_values_([a-z]+)_(\w+)\.json",
                                                  row["source_ref"]).groups()
                yield {"id": row["id"][-4:], "gpus": int(row["num_gpus"] or 8), "environment": environment, "platform": platform,
                       "revision": row["framework_version"],
                       "current": int(values["allocated_current_bytes"]),
                       "first_step_peak": int(values["first_step_peak_bytes"]),
                       "peak": int(values["peak_bytes"])}


def data_arguments(test_case, python, environment, folder):
    """GPT has mock data; BERT, which has none, gets a vocabulary and a data set in `folder`."""
    if not test_case.startswith("bert/"):
        return GPT_DATA
    # Outside the virtual device there is no GPU whose architecture could be queried.
    subprocess.run([python, HERE / "make_bert_data.py", folder], check=True,
                   env=environment | {"TORCH_CUDA_ARCH_LIST": "8.0"}, stdout=subprocess.DEVNULL)
    return {"eval-iters": 1, "tokenizer-type": "BertWordPieceLowerCase",
            "vocab-file": f"{folder}/bert-large-uncased/vocab.txt",
            "data-path": f"{folder}/documents", "data-cache-path": f"{folder}/cache"}


def arguments(config, iterations, tensorboard, data):
    merged = {key: value for key, value in config["args"].items() if key not in DROPPED}
    merged |= ADDED | data | {"train-iters": iterations, "log-interval": 1,
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


def recorded_ranks(config, test_case, world):
    """The last rank, which the rows are of; before it the one that tells others of its tensor
    parallel group what to do, and that writes the index of a data set."""
    tensor_parallel = config["args"].get("tensor-model-parallel-size", 1)
    needs_first = tensor_parallel > 1 or test_case.startswith("bert/")
    return [0, world - 1] if needs_first else [world - 1]


def configuration(test_case, platform):
    """What a test runs with on a platform; None where it was not published."""
    return next((c for c in configurations() if c["id"].startswith(test_case + "/")
                 and c["id"].endswith("/" + platform)), None)


def rows_of(test_case, platform):
    return [row for row in published(test_case) if row["platform"] == platform]


def run(options, test_case, order):
    config = configuration(test_case, options.platform)
    script = "pretrain_bert.py" if test_case.startswith("bert/") else "pretrain_gpt.py"
    path = [str(options.checkout), *filter(None, [os.environ.get("PYTHONPATH")])]
    if options.with_extensions:
        path.insert(0, str(HERE / "absent_extensions"))
    if options.with_flash_attention:
        path.insert(0, str(HERE / "absent_flash_attention"))
    environment = os.environ | {k: str(v) for k, v in config["env"].items() if "$" not in str(v)}
    # Rank 0 calls make, which runs the python3 and python3-config in PATH.
    python = pathlib.Path(options.python)
    environment["PATH"] = f"{python.parent}:{python.resolve().parent}:{os.environ['PATH']}"
    environment |= {"PYTHONPATH": ":".join(path), "PYTHONWARNINGS": "ignore",
                    "TORCHINDUCTOR_COMPILE_THREADS": "1"}
    rows = rows_of(test_case, options.platform)
    world = rows[0]["gpus"]
    ranks = recorded_ranks(config, test_case, world)
    with (tempfile.TemporaryDirectory() as tensorboard,
          tempfile.TemporaryDirectory() as data_folder):
        data = data_arguments(test_case, options.python, environment, data_folder)
        command = [str(ROOT / "build/tests/record_rank"), CLUSTERS[options.platform], str(world),
                   ",".join(map(str, ranks)), order, options.python,
                   str(options.checkout / script),
                   *arguments(config, options.iterations, tensorboard, data)]
        done = subprocess.run(command, env=environment, cwd=data_folder, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if done.returncode != 0:
            sys.exit(f"{test_case}: exit code {done.returncode}\n{done.stdout[-4000:]}")
        measured = read_memory(options.python, tensorboard)
    allocator = config["env"].get("PYTORCH_CUDA_ALLOC_CONF", "")
    return {"config": test_case, "platform": options.platform, "revision": options.revision,
            "implementation": config["args"].get("transformer-impl", "transformer_engine"),
            "segments": "expandable" if "expandable_segments:True" in allocator else "classic",
            "order": order, "ranks": ranks, **dict(zip(KEYS, measured)),
            "counters": sorted(line[8:] for line in done.stdout.splitlines()
                               if line.startswith("counter ")),
            "rows": rows}


def show(result):
    print(f"\n{result['config']} on {result['platform']}, {result['implementation']}, "
          f"{result['segments']} segments ({result['order']})")
    print(f"  {'':36}" + "".join(f"{key.replace('_', ' '):>16}" for key in KEYS))
    print(f"  {'measured, ' + result['revision']:36}"
          + "".join(f"{result[key]:16,}" for key in KEYS))
    for row in result["rows"]:
        name = f"row {row['id']} {row['environment']} {row['revision']}"
        print(f"  {name:36}" + "".join(f"{row[key]:16,}" for key in KEYS))
        print(f"  {'  measured less published':36}"
              + "".join(f"{result[key] - row[key]:+16,}" for key in KEYS))
        print(f"  {'  in percent':36}"
              + "".join(f"{100 * (result[key] / row[key] - 1):+16.3f}" for key in KEYS))


def show_ranges(results):
    """Lowest to highest value of each configuration that ran with several orders of addresses."""
    runs = {}
    for result in results:
        runs.setdefault((result["config"], result["platform"], result["revision"]),
                        []).append(result)
    for (config, platform, revision), same in runs.items():
        if len({result["order"] for result in same}) > 1:
            spans = (max(r[key] for r in same) - min(r[key] for r in same) for key in KEYS)
            print(f"\n{config} on {platform}, {revision}: range over orders "
                  + ", ".join(f"{key} {span:,}" for key, span in zip(KEYS, spans)))


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", type=pathlib.Path, nargs="?")
    parser.add_argument("--revision", default="")
    parser.add_argument("--platform", choices=CLUSTERS, default="dgx_a100")
    parser.add_argument("--config", action="append", default=[])
    parser.add_argument("--order", action="append", default=[])
    parser.add_argument("--python", default=str(ROOT / ".venv/bin/python"))
    parser.add_argument("--with-extensions", action="store_true")
    parser.add_argument("--with-flash-attention", action="store_true")
    parser.add_argument("--iterations", type=int, default=3)
    parser.add_argument("--results", type=pathlib.Path)
    parser.add_argument("--show", type=pathlib.Path)
    options = parser.parse_args()
    results = []
    if options.show:
        results = [json.loads(line) for line in options.show.read_text().splitlines()]
        for result in results:
            show(result)
        show_ranges(results)
        return
    if options.checkout is None or not options.config:
        parser.error("CHECKOUT and at least one --config ID, or --show FILE")
    for script in ("pretrain_gpt.py", "pretrain_bert.py"):
        if not (options.checkout / script).exists():
            parser.error(f"{options.checkout}: no {script}, so no working tree of Megatron-LM")
    for test_case in options.config:
        if configuration(test_case, options.platform) is None:
            parser.error(f"--config {test_case}: no such test was published for {options.platform}")
        if not rows_of(test_case, options.platform):
            parser.error(f"--config {test_case}: no row with all three values for {options.platform}")
    options.checkout = options.checkout.resolve()
    for order in options.order or ["profile"]:
        for test_case in options.config:
            result = run(options, test_case, order)
            results.append(result)
            show(result)
            sys.stdout.flush()
            if options.results:
                with open(options.results, "a") as file:
                    file.write(json.dumps(result) + "\n")
    show_ranges(results)


if __name__ == "__main__":
    main()
