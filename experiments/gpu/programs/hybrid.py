"""Items 6 to 9: sandbox ranks on the GPU with virtual peers."""
import json
import sys

import common
import virtual_truth

# Options, and what is run: a training step with virtual peers, or all ranks of a job and every
# collective compared with a reference.
TRAINING = ["experiments/02_ddp/train.py", "--layers", "4", "--steps", "5"]
VALUES = ["experiments/gpu/programs/values.py"]
RUNS = {"as_fast_as_the_graph": (["--target-gpus", "16"], TRAINING),
        "target_twice_as_slow": (["--target-gpus", "16", "--device-scale", "2"], TRAINING),
        "two_ranks_on_one_gpu": (["--target-gpus", "16", "--sandbox-ranks", "0,1"], TRAINING),
        "values_of_four_ranks": (["--target-gpus", "4", "--sandbox-ranks", "0-3"], VALUES),
        "values_under_mpirun": (["--target-gpus", "4", "--sandbox-ranks", "0-3"], VALUES)}
CASES = [f"prism-emulate --device cuda, {name}: {' '.join(options)}"
         for name, (options, _) in RUNS.items()]


def run(args, name, folder):
    options, program = RUNS[name]
    out = folder / "run"
    launcher = ["mpirun", "-n", "4"] if name.endswith("mpirun") else []
    if "--sandbox-ranks" not in options:
        options = [*options, "--sandbox-ranks", "0"]
    virtual_truth.checked(
        [*launcher, common.prism(args, "prism-emulate"), "--cluster",
         virtual_truth.cluster(common.machine()), "--device", "cuda", "--quiet", *options, "--out", out,
         "--", sys.executable, args.root / program[0], *program[1:]], 100, args.root)
    summary = json.loads((out / "summary.json").read_text())
    said = {log.stem: log.read_text().splitlines()[-1:] for log in sorted((out / "logs").iterdir())}
    return {"device": summary["device"], "device_scale": summary["device_scale"],
            "iteration_time_s": summary["iteration_time_s"],
            "replayed_s": virtual_truth.replayed(args, out / "graph.prism"),
            "peak_memory": summary["peak_memory"], "warnings": summary["warnings"], "said": said}


def main():
    args = common.arguments(CASES)
    results = common.Results(args)
    for name in RUNS:
        results.add(name, virtual_truth.in_folder, run, args, name)
    results.finish()


if __name__ == "__main__":
    main()
