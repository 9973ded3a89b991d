"""Is a replay of kernels timed by --record-device as long as the step on the GPU?

The step is timed alone, without Prism. Then prism-emulate records it and times each of its kernels,
copies and memsets by CUPTI, under the shim, and the host between its calls; the replay of that graph is
held against the step.
"""
import json

import common
import hybrid
import virtual_truth

CASES = ["the step alone on the GPU",
         f"prism-emulate --record-device cuda --target-gpus 1: {' '.join(hybrid.STEP)}: its replay"]
TIMED = ["--target-gpus", "1", "--sandbox-ranks", "none", "--record-device", "cuda", "--host-time",
         "measured:1"]


def recorded(args, folder):
    """The step's time by the graph, and the ops of it by what decided their time."""
    _, summary = hybrid.emulate(args, TIMED, hybrid.STEP, folder)
    graph = folder / "run" / "graph.prism"
    said = json.loads(virtual_truth.checked(
        [common.prism(args, "prism"), "replay", graph, "--costs", "--format", "json"], 60, folder))
    return {"by_the_times_s": virtual_truth.replayed(args, graph), "costs": said["costs"],
            "host": said.get("host"),
            "warnings": summary["warnings"],
            "timed": [line for line in summary["assumptions"] if " as timed on " in line]}


def main():
    args = common.arguments(CASES)
    results = common.Results(args, common.machine())
    alone = results.add("alone", virtual_truth.in_folder, hybrid.alone, args)
    times = results.add("recorded", virtual_truth.in_folder, recorded, args)
    left = [rule["ops"] for rule in times["costs"] if rule["rule"] != "recorded"] if times else []
    off = (virtual_truth.off([alone["real_s"]["p50"], times["by_the_times_s"]])
           if alone and times else None)
    results.finish([
        common.goal("ops whose time the model gives", sum(left) if times else None, 0),
        common.goal("share by which the replay of the timed kernels differs from the step", off, 0.01)])


if __name__ == "__main__":
    main()
