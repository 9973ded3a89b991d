"""Items 6 to 9: sandbox ranks on the GPU with virtual peers."""
import json
import pathlib
import subprocess
import sys
import tempfile

import common
import virtual_truth

RUNS = {"as_fast_as_the_graph": [], "target_twice_as_slow": ["--device-scale", "2"],
        "several_ranks_on_one_gpu": ["--sandbox-ranks", "0,1"]}
CASES = [f"prism-emulate --device cuda, {name}: {' '.join(options) or 'one rank'}"
         for name, options in RUNS.items()]


def run(args, options, out):
    command = [args.root / "build/bin/prism-emulate", "--target-gpus", "16", "--cluster",
               virtual_truth.cluster(common.machine()), "--device", "cuda", "--sandbox-ranks", "0", "--quiet",
               *options, "--out", out, "--", sys.executable,
               args.root / "experiments/02_ddp/train.py", "--layers", "4", "--steps", "6"]
    done = subprocess.run(list(map(str, command)), cwd=args.root, capture_output=True, text=True,
                          timeout=60, check=False)
    if done.returncode != 0:
        return {"code": done.returncode, "said": done.stderr[-800:]}
    summary = json.loads((out / "summary.json").read_text())
    replay = subprocess.run([args.root / "build/bin/prism", "replay", out / "graph.prism", "--format",
                             "json"], capture_output=True, text=True, check=True)
    return {"code": 0, "device": summary["device"], "device_scale": summary["device_scale"],
            "iteration_time_s": summary["iteration_time_s"],
            "replayed_s": json.loads(replay.stdout)["iteration_time_s"],
            "peak_memory": summary["peak_memory"], "warnings": summary["warnings"]}


def main():
    args = common.arguments(CASES)
    result = {}
    if not (args.root / "build/bin/prism-emulate").exists():
        sys.exit("hybrid: build/bin/prism-emulate is missing; run ./run.sh first")
    for name, options in RUNS.items():
        with tempfile.TemporaryDirectory() as folder:
            result[name] = run(args, options, pathlib.Path(folder) / "run")
    common.write(args, {"runs": result})


main()
