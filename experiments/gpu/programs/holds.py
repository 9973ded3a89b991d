"""Item 5 and part of 9: how well holds keep their deadlines, and what they do to others."""
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import common
from probe import MEANS, Probe

LENGTHS_US = [10, 30, 100, 300, 1000, 3000, 10_000, 100_000]
REPEATS = {10_000: 30, 100_000: 8}
BLOCKS = [1, 8, 16, 24, 32]
LINK_BYTES_PER_US = 450_000  # NVLink of an H100, one direction
CASES = ([f"hold by {means}, {us} us: asked against happened" for means in MEANS for us in LENGTHS_US]
         + ["step of the global timer", "hold in a CUDA graph, launched 5 times",
            "torch.profiler and nsys name the hold", "abort of a hold without a deadline"]
         + [f"matrix product beside {blocks} blocks: hold, copy kernel, alone" for blocks in BLOCKS])


def injection(path, means):
    """Error of the end against the deadline, microseconds; below 0 where it came too early."""
    import torch
    probe = Probe(path, means)
    stream = torch.cuda.Stream()
    table = {}
    for length_us in LENGTHS_US:
        errors = []
        for _ in range(REPEATS.get(length_us, 200)):
            probe.hold(stream)
            due = probe.release(length_us * 1000)
            errors.append((-probe.next() - due) / 1e3)
            stream.synchronize()
        table[f"{length_us} us"] = {**common.spread(errors), "absolute": common.spread(map(abs, errors))}
    probe.close()
    return table


def timer_step(path):
    import torch
    probe = Probe(path)
    times = torch.zeros(20_000, dtype=torch.int64, device="cuda")
    probe.timer(times, torch.cuda.current_stream())
    torch.cuda.synchronize()
    steps = times.cpu().diff()
    probe.close()
    return common.spread(steps[steps > 0].tolist())


def graph(path):
    """Each launch of a captured hold has to look up a deadline of its own."""
    import torch
    probe = Probe(path)
    stream = torch.cuda.Stream()
    captured = torch.cuda.CUDAGraph()
    with torch.cuda.graph(captured, stream=stream):
        ok = probe.capture(stream)
    errors = []
    for launch in range(5):
        probe.count()
        with torch.cuda.stream(stream):
            captured.replay()
        due = probe.release((launch + 1) * 50_000)
        errors.append((-probe.next() - due) / 1e3)
    probe.close()
    return {"captured": ok, "error_us": errors}


def profiler(path):
    import torch
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        one_hold(path)
    return [event.key for event in profile.key_averages() if "prism_hold" in event.key]


def abort(path):
    import torch
    probe = Probe(path)
    stream = torch.cuda.Stream()
    probe.hold(stream)
    begin = probe.next()
    probe.abort()
    end = -probe.next()
    stream.synchronize()
    probe.close()
    return {"unblocked_after_us": (end - begin) / 1e3}


def nsight(path):
    """Names of holds in what Nsight Systems writes of this program, called for the `profiler` part."""
    nsys = shutil.which("nsys")
    if nsys is None:
        return "no nsys on this machine"
    with tempfile.TemporaryDirectory() as folder:
        report = pathlib.Path(folder) / "report"
        for command in ([nsys, "profile", "--trace", "cuda", "--sample", "none", "--cpuctxsw", "none",
                         "-o", report, sys.executable, __file__, "--one-hold", path],
                        [nsys, "stats", "--report", "cuda_gpu_kern_sum", "--format", "csv",
                         f"{report}.nsys-rep"]):
            done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=60,
                                  check=False)
            if done.returncode != 0:
                return f"{command[1]} ends with {done.returncode}: {(done.stdout + done.stderr)[-300:]}"
    return sorted(set(re.findall(r"prism_hold\w*", done.stdout)))


def one_hold(path):
    """A hold of 100 us, for a profiler to see."""
    import torch
    torch.zeros(1, device="cuda")  # the context
    probe = Probe(path)
    stream = torch.cuda.Stream()
    probe.hold(stream)
    probe.release(100_000)
    probe.next()
    stream.synchronize()
    probe.close()


def occupancy(path):
    """Seconds of a matrix product alone, beside a hold, one that moves what it would over NVLink, and a
    copy kernel of as many blocks."""
    import torch
    probe = Probe(path)
    a = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
    source = torch.empty(64 << 20, dtype=torch.uint8, device="cuda")
    target = torch.empty_like(source)
    side = torch.cuda.Stream()
    table = {"alone": common.device_seconds(lambda: a @ a, repeats=5)}
    length_ns = int(table["alone"]["p50"] * 1e9 * 12) + 2_000_000

    def beside(begin, end):
        values = []
        for _ in range(5):
            begin()
            first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            first.record()
            for _ in range(5):
                a @ a
            last.record()
            last.synchronize()
            values.append(first.elapsed_time(last) / 5e3)
            end()
        return common.spread(values)

    for blocks in BLOCKS:
        def begin_hold(bytes_per_us=0):
            probe.hold(side, blocks=blocks, bytes_per_us=bytes_per_us)
            probe.release(length_ns)

        def begin_copy():
            probe.copy(source, target, blocks, length_ns, side)

        held = beside(begin_hold, probe.next)
        copied = beside(begin_copy, side.synchronize)
        moving = beside(lambda: begin_hold(LINK_BYTES_PER_US * 3 // 2 // blocks), probe.next)
        table[f"{blocks} blocks"] = {"moving_hold": moving, "hold": held, "copy": copied,
                                     "hold_by_copy": held["p50"] / copied["p50"]}
    probe.close()
    return table


def goals(results):
    rows = []
    for length_us in LENGTHS_US:
        errors = results.part("injection_error_us by kernel").get(f"{length_us} us", {})
        rows += [common.goal(f"hold of {length_us} us by kernel: {share} of the absolute error, us",
                             errors.get("absolute", {}).get(share), at_most) for share, at_most in (("p50", 2), ("p99", 5))]
    captured = results.part("graph")
    rows.append(common.goal("holds in a CUDA graph: largest error, us",
                            max(map(abs, captured["error_us"])) if captured.get("captured") else None, 5))
    rows.append(common.goal("abort: us until the hold ends",
                            results.part("abort").get("unblocked_after_us"), 1e6))
    named = results.content["parts"].get("profiler")
    rows.append(common.goal("torch.profiler: holds without a name",
                            None if common.failed(named) or named is None else int(not named), 0))
    for blocks in BLOCKS:
        ratio = results.part("occupancy").get(f"{blocks} blocks", {}).get("hold_by_copy")
        rows.append(common.goal(f"product beside {blocks} blocks: share by which hold and copy differ",
                                None if ratio is None else abs(ratio - 1), 0.05))
    return rows


def main():
    if sys.argv[1:2] == ["--one-hold"]:
        one_hold(pathlib.Path(sys.argv[2]))
        return
    args = common.arguments(CASES)
    results = common.Results(args, common.machine())
    import torch
    torch.zeros(1, device="cuda")
    results.add("timer_step_ns", timer_step, args.probe)
    results.add("injection_error_us by kernel", injection, args.probe, "kernel")
    for part in (graph, abort, profiler, nsight, occupancy):
        results.add(part.__name__, part, args.probe)
    for means in MEANS[1:]:
        results.add(f"injection_error_us by {means}", injection, args.probe, means)
    results.finish(goals(results))


if __name__ == "__main__":
    main()
