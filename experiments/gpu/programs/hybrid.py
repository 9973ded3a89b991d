"""Items 6 to 9: sandbox ranks on the GPU with virtual peers.

The GPU at hand is not as fast as its graph says. So the step is timed alone first, without Prism: the
graph's time of one GPU by that is the scale under which the GPU keeps to its graph, and the times of
the runs behind it can be held against replays.
"""
import json
import re
import statistics
import sys

import common
import virtual_truth

STEP = common.STEP
WITH = "experiments/gpu/programs/step_with.py"
VALUES = ["experiments/gpu/programs/values.py"]
LATE_S = 0.05  # of the target
PRINTED = re.compile(r"step \d+ loss \S+ (\S+) s")
COUNTED = re.compile(r"(\d+) results, (\d+) wrong")
ONE = ["--target-gpus", "16", "--sandbox-ranks", "0"]
FOUR = ["--target-gpus", "4", "--sandbox-ranks", "0-3"]
# Options, how much slower the target's GPU is, what is run, and what makes the replay the same.
RUNS = {"as_fast_as_the_graph": (ONE, 1, STEP, []),
        "target_twice_as_slow": (ONE, 2, STEP, ["--perturb", "straggler:0:2"]),
        "late_rank": (ONE, 1, [WITH, "late", "{late}"], ["--perturb", f"periodic:0:1i:{LATE_S}"]),
        "two_ranks_on_one_gpu": (["--target-gpus", "16", "--sandbox-ranks", "0,1"], 1, STEP, []),
        "values_of_four_ranks": (FOUR, 1, VALUES, []),
        "values_under_mpirun": (FOUR, 1, VALUES, []),
        "profiled": (ONE, 1, [WITH, "profiler"], []),
        "stopped_in_a_debugger": ([*ONE, "--interactive"], 1, [WITH, "stop"], [])}
TIMED = ["as_fast_as_the_graph", "target_twice_as_slow", "late_rank"]
CASES = (["the step alone on the GPU, and by its graph: the scale"]
         + [f"prism-emulate --device cuda --device-scale {slower:g} x scale, {name}: {' '.join(options)}"
            for name, (options, slower, _, _) in RUNS.items()])


def emulate(args, options, program, folder, *launcher):
    """Runs the program; what it said and the summary of the run, whose other files are in `folder`."""
    said = virtual_truth.checked(
        [*launcher, common.prism(args, "prism-emulate"), "--cluster",
         virtual_truth.cluster(common.machine()), "--quiet", *options, "--out", folder / "run", "--",
         sys.executable, args.root / program[0], *program[1:]], 100, folder)
    return said, json.loads((folder / "run" / "summary.json").read_text())


def alone(args, folder):
    """Seconds of a step of the only rank of a job, on the GPU and by its graph."""
    job = {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "MASTER_ADDR": "127.0.0.1",
           "MASTER_PORT": "0"}
    said = virtual_truth.checked([sys.executable, args.root / STEP[0], *STEP[1:], "--steps", "12"], 60,
                                 folder, **job)
    real = [float(seconds) for seconds in PRINTED.findall(said)][4:]
    emulate(args, ["--target-gpus", "1", "--sandbox-ranks", "none"], STEP, folder)
    graph = virtual_truth.replayed(args, folder / "run" / "graph.prism")
    return {"real_s": common.spread(real), "by_the_graph_s": graph,
            "scale": graph / statistics.median(real)}


def run(args, name, scale, folder):
    options, slower, program, replay = RUNS[name]
    launcher = ["mpirun", "-n", "4"] if name.endswith("mpirun") else []
    said, summary = emulate(
        args, ["--device", "cuda", "--device-scale", f"{scale * slower:.6g}", *options],
        [word.format(late=LATE_S / scale) for word in program], folder, *launcher)
    logs = {log.stem: log.read_text().splitlines()[-8:]
            for log in sorted((folder / "run" / "logs").iterdir())}
    replayed = virtual_truth.replayed(args, folder / "run" / "graph.prism", *replay)
    return {"device": summary["device"], "device_scale": summary["device_scale"], "scale": scale * slower,
            "iteration_time_s": summary["iteration_time_s"], "replayed_s": replayed,
            "peak_memory": summary["peak_memory"], "warnings": summary["warnings"],
            "said": logs | ({"terminal": said.splitlines()[-40:]} if "--interactive" in options else {})}


def lines_of(part):
    """What each rank of a run said last."""
    return ["\n".join(lines) for lines in part.get("said", {}).values()]


def wrong(part):
    """Wrong results of all ranks; None where one of them did not count."""
    counts = [COUNTED.search(text) for text in lines_of(part)]
    return sum(int(count[2]) for count in counts) if counts and None not in counts else None


def goals(results):
    parts = {name: results.part(name) for name in RUNS}
    slips = {name: virtual_truth.off([part["replayed_s"], part["iteration_time_s"]]) if part else None
             for name, part in parts.items()}
    shared, scaled = parts["two_ranks_on_one_gpu"], parts["target_twice_as_slow"]
    marked = any(warning["code"] == "gpu_shared" for warning in shared.get("warnings", []))
    rows = [common.goal(f"{name}: share by which the iteration differs from the replay", slips[name], 0.01)
            for name in TIMED]
    rows.append(common.goal("target_twice_as_slow: share by which the scale that is shown differs",
                            virtual_truth.off([scaled["scale"], scaled["device_scale"]]) if scaled else None,
                            1e-5))
    rows.append(common.goal("two_ranks_on_one_gpu: share by which the iteration differs from the replay",
                            slips["two_ranks_on_one_gpu"], 0))
    rows.append(common.goal("two_ranks_on_one_gpu: times not marked as the replay's",
                            int(not marked) if shared else None, 0))
    rows += [common.goal(f"{name}: wrong results", wrong(parts[name]), 0)
             for name in ("values_of_four_ranks", "values_under_mpirun")]
    for name, word in (("profiled", "profiler: prism_hold"), ("stopped_in_a_debugger", "went on")):
        there = any(word in text for text in lines_of(parts[name]))
        rows.append(common.goal(f"{name}: runs without '{word}'",
                                int(not there) if parts[name] else None, 0))
    return rows


def main():
    args = common.arguments(CASES)
    results = common.Results(args, common.machine())
    measured = results.add("alone", virtual_truth.in_folder, alone, args)
    for name in RUNS:
        if measured:
            results.add(name, virtual_truth.in_folder, run, args, name, measured["scale"])
        elif name not in TIMED:
            results.add(name, virtual_truth.in_folder, run, args, name, 1)
    results.finish(goals(results))


if __name__ == "__main__":
    main()
