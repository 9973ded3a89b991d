# Rewrites a profile of torch.profiler as if its kernels took a given share of their time, without
# anything of Prism: halve_kernels.py IN.json[.gz] OUT.json SHARE
#
# Calls of all threads are one sequence whose pauses stay, a synchronisation returns when the stream
# that it saw end last ends, and a task begins when its stream, its launch, and the task of another
# stream at whose end it began allow. NCCL's kernels, copies and memsets keep their durations.
import bisect
import gzip
import json
import sys

SKEW = 5.0  # us, between the clocks of host and GPU
TASKS = ("kernel", "gpu_memcpy", "gpu_memset", "memcpy", "memset")


def is_call(event):
    return event.get("cat", "").lower().endswith(("runtime", "driver"))


def main(source, target, share):
    opened = gzip.open(source, "rt") if source.endswith(".gz") else open(source)
    profile = json.load(opened)
    events = profile["traceEvents"] if isinstance(profile, dict) else profile
    spans = [e for e in events if e.get("ph") == "X" and float(e.get("dur", -1)) >= 0]
    for event in spans:
        event["ts"], event["dur"] = float(event["ts"]), float(event["dur"])
    tasks = sorted((e for e in spans if e.get("cat", "").lower() in TASKS), key=lambda e: e["ts"])
    of_call = {}
    for task in tasks:
        of_call.setdefault(task["args"].get("correlation"), []).append(task)
    calls, seen = [], set()
    for event in spans:
        if not is_call(event):
            continue
        correlation = event.get("args", {}).get("correlation")
        launched = of_call.get(correlation, []) if correlation not in seen else []
        seen.add(correlation)
        kind = "launch" if launched else "wait" if "Synchronize" in event["name"] else ""
        effect = event["ts"] + (event["dur"] if kind == "wait" else 0)
        calls.append((effect, len(calls), event, kind, launched))
    calls.sort(key=lambda call: call[:2])

    old_end = lambda e: e["old"] + e["old_dur"]
    for event in spans:
        event["old"], event["old_dur"] = event["ts"], event["dur"]
    old_ends = sorted((old_end(t), i) for i, t in enumerate(tasks))
    points = [(min(e["old"] for e in spans), min(e["old"] for e in spans))]  # old and new host time
    last = {}

    def host_at(old):
        at = bisect.bisect_right(points, (old, float("inf"))) - 1
        return points[at][1] + old - points[at][0]

    done = {}
    for _, _, call, kind, launched in calls:
        begin, end = call["old"], call["old"] + call["old_dur"]
        if kind == "launch":
            copies = "Memcpy" in call["name"] and len(launched) == 1
            blocks = copies and old_end(launched[0]) <= end
            ready_host = host_at(begin if blocks else min(end, launched[0]["old"]))
            for task in launched:
                stream = (task["args"].get("device"), task["args"].get("stream", task["tid"]))
                before = last.get(stream)
                start, ready_old = ready_host, begin if blocks else min(end, task["old"])
                if before is not None:
                    start = max(start, before["ts"] + before["dur"])
                    ready_old = max(ready_old, old_end(before))
                # Another stream's task at whose end it began.
                low = bisect.bisect_left(old_ends, (task["old"] - SKEW, -1))
                high = bisect.bisect_right(old_ends, (task["old"] + 1e-3, len(tasks)))
                for _, index in old_ends[low:high]:
                    other = tasks[index]
                    if id(other) in done:
                        start = max(start, other["ts"] + other["dur"])
                        ready_old = max(ready_old, old_end(other))
                start += max(0.0, task["old"] - ready_old)  # whatever else it waited for
                name = task["name"].lower()
                if task["cat"].lower() == "kernel" and "nccl" not in name:
                    task["dur"] = task["old_dur"] * share
                task["ts"] = start
                last[stream] = task
                done[id(task)] = task
            if blocks:
                task = launched[0]
                new = max(host_at(begin), task["ts"] + task["dur"]) + end - max(old_end(task), begin)
                points.append((end, max(new, host_at(begin))))
        elif kind == "wait":
            awaited = [t for t in last.values() if begin < old_end(t) <= end + SKEW]
            if awaited:
                task = max(awaited, key=old_end)
                new = max(host_at(begin), task["ts"] + task["dur"]) + end - min(old_end(task), end)
                points.append((end, new))
    for event in spans:
        if id(event) not in done:
            begin = host_at(event["old"])
            event["ts"], event["dur"] = begin, host_at(event["old"] + event["old_dur"]) - begin
    for event in spans:
        del event["old"], event["old_dur"]
    json.dump(profile, open(target, "w"))


main(sys.argv[1], sys.argv[2], float(sys.argv[3]))
