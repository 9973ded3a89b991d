"""What shim and recorder add to an iteration: the same program on the virtual device alone and
while it is recorded, by CPU time of its process and by samples of perf. Prints one line each."""
import collections
import os
import pathlib
import subprocess
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = [str(ROOT / ".venv/bin/python"), str(ROOT / "experiments/recording_cost/train.py")]
STEPS, SKIPPED = 120, 10
OURS = ("libprism_shim.so", "libprism_observer.so", "libprism_rendezvous.so", "prism-emulate")


def step_times(path):
    """(wall, CPU) milliseconds of the fastest step after the first ones: the least disturbed. The
    emulation, whose process writes behind the recorded one, has a CPU clock that begins anew."""
    rows = [[float(x) for x in line.split()] for line in open(path)]
    ends = [i for i, (a, b) in enumerate(zip(rows, rows[1:]), 1) if b[1] < a[1]]
    rows = rows[:ends[0]] if ends else rows
    steps = [[b - a for a, b in zip(*pair)] for pair in zip(rows, rows[1:])][SKIPPED:]
    return [1e3 * min(column) for column in zip(*steps)]


def lines_in(path):
    return sum(1 for _ in open(path)) if os.path.exists(path) else 0


def sample(pids, seconds, data):
    """Samples by (process is the program, file they fell into)."""
    subprocess.run(
        ["perf", "record", "-q", "-e", "cpu-clock", "-F", "997", "-o", data,
         "-p", ",".join(map(str, pids)), "--", "sleep", str(seconds)],
        check=True,
    )
    report = subprocess.run(
        ["perf", "script", "-i", data, "-F", "pid,ip,dso"], check=True, capture_output=True, text=True
    ).stdout
    counts = collections.Counter()
    for line in report.splitlines():
        pid, place = line.split(None, 1)
        counts[int(pid) == pids[0], os.path.basename(place.rsplit("(", 1)[-1].rstrip(")"))] += 1
    return counts


def alone(folder):
    path = os.path.join(folder, "alone")
    environment = dict(os.environ, LD_PRELOAD=str(ROOT / "build/lib/libprism_shim.so"),
                       LD_LIBRARY_PATH=str(ROOT / "build/lib/prism"))
    subprocess.run([*PROGRAM, path, str(STEPS)], env=environment, check=True)
    return step_times(path)


def recorded_process(run):
    """The process of the program among the children of a run, which has a guard beside it."""
    children = subprocess.run(["pgrep", "-P", str(run.pid)], capture_output=True, text=True).stdout
    for child in children.split():
        try:
            words = pathlib.Path(f"/proc/{child}/cmdline").read_text().split("\0")
            if words[:2] == PROGRAM:
                return int(child)
        except FileNotFoundError:  # it has ended meanwhile
            pass
    raise SystemExit("prism-emulate ended, or has no process of the program, before it was sampled")


def recorded(folder):
    path = os.path.join(folder, "recorded")
    run = subprocess.Popen(
        [ROOT / "build/bin/prism-emulate", "--target-gpus", "1", "--iterations", str(STEPS - 10),
         "--out", os.path.join(folder, "out"), "--log-ranks", "none", "--quiet",
         "--", *PROGRAM, path, str(STEPS)],
        stdout=subprocess.DEVNULL,
    )
    try:
        while lines_in(path) < SKIPPED and run.poll() is None:
            time.sleep(0.2)
        program = recorded_process(run)
        counts = sample([program, run.pid], 3, os.path.join(folder, "perf.data"))
        while os.path.exists(f"/proc/{program}") and run.poll() is None:
            time.sleep(0.2)
        return step_times(path), counts
    finally:
        run.kill()
        run.wait()


def main():
    with tempfile.TemporaryDirectory() as folder:
        wall, cpu = alone(folder)
        print(f"alone     {wall:8.2f} ms wall {cpu:8.2f} ms CPU a step")
        (wall_recorded, cpu_recorded), counts = recorded(folder)
        print(f"recorded  {wall_recorded:8.2f} ms wall {cpu_recorded:8.2f} ms CPU a step")
        print(f"ratio     {wall_recorded / wall:8.3f} wall    {cpu_recorded / cpu:8.3f} CPU")
        program = sum(count for (own, _), count in counts.items() if own)
        inside = sum(count for (own, file), count in counts.items() if own and file in OURS)
        beside = sum(counts.values()) - program
        print(f"samples   {100 * inside / program:.1f} % of the program's in the shim, "
              f"the recorder beside it takes {100 * beside / program:.1f} % as much")


if __name__ == "__main__":
    main()
