"""Writes the table of tests/matrix/run.sh: what ran under which torch, and how its ops differ from
those of the torch that Prism is developed with."""

import collections
import datetime
import difflib
import json
import pathlib
import re
import subprocess
import sys

prism, runs, kinds = sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3].split()
CURRENT = re.search(r"^torch_version=(\d+[.]\d+)",
                    pathlib.Path("launch/setup.sh").read_text(), re.M)[1]
RANKS = 16
MOST_OPS = 100000
SHOWN = 20  # kinds of differences of one cell


def outcome(release, kind):
    """"runs", or what the run said, in one line."""
    state = runs / release / f"{kind}.status"
    if not state.exists():
        return "not tried"
    status = state.read_text().split()[0]
    if status == "0":
        return "runs"
    text = (runs / release / f"{kind}.log").read_text(errors="replace")
    departs = re.search(r"departs from the graph in (iteration \d+)\s+it does: (.*)\s+graph: (.*)",
                        text)
    if departs:
        return (f"departs in {departs[1]}: `{departs[2].strip()[:120]}`, in the graph "
                f"`{departs[3].strip()[:120]}`").replace("|", "\\|")
    lines = [line for line in text.splitlines() if line.strip()]
    last = lines[-1] if lines else "no output"
    message = next((line for line in lines if line.startswith("prism-emulate: ")), last)
    return f"fails ({status}): {message[:160]}".replace("|", "\\|")


def ops_of(release, kind):
    """What a rank of each role issues, as (in short, all of it): of the compute stream, then of the
    others, then events and waits, then markers, each in the order of their issue."""
    graph = runs / release / kind / "graph.prism"
    sorts = ([], [], [], [])
    for rank in range(0, RANKS, 4 if kind == "pipeline" else RANKS):
        shown = subprocess.run(
            [prism, "graph", "show", graph, "--rank", str(rank), "--ops", str(MOST_OPS),
             "--format", "json"], check=True, capture_output=True, text=True)
        for op in json.loads(shown.stdout)["rank"]["ops"]:
            marks = op["kind"] == "marker"
            orders = op["kind"].startswith(("event", "host waits")) or "waits for" in op["text"]
            place = 3 if marks else 2 if orders else 1 if op["stream"] != 0 else 0
            sorts[place].append(short(op["text"]))
    return sorts


def without_arguments(name):
    """A kernel's name without namespaces, template arguments and parameters."""
    while True:
        shorter = re.sub(r"<[^<>]*>|[(][^()]*[)]|[{][^{}]*[}]", "", name)
        if shorter == name:
            return re.sub(r"^void ", "", name).split("::")[-1].split(" ")[0]
        name = shorter


def short(text):
    """An op as (in short, all of it), without what only numbers it."""
    text = re.sub(r" (to|from) rank .*?(?= [+]| on stream|$)", r" \1 a peer", text)
    text = re.sub(r" on stream \d+| of op \d+| on communicator \S+ of ranks \S+", "", text)
    kernel = re.match(r"kernel (.*?)(?: grid \S+ block \S+)?(?: [(]([\w:.]+)[^()]*[)])?$", text)
    if kernel:
        name = without_arguments(kernel[1])
        return f"{name} in {kernel[2]}" if kernel[2] else name, text
    return re.sub(r"\d+ bytes", "n bytes", text), text


def differences(left, right):
    """Which ops differ, in short, with how often."""
    found = collections.Counter()
    matcher = difflib.SequenceMatcher(None, [op[1] for op in left], [op[1] for op in right], False)
    for tag, a, a_end, b, b_end in matcher.get_opcodes():
        if tag == "equal":
            continue
        was, now = [op[0] for op in left[a:a_end]], [op[0] for op in right[b:b_end]]
        inner = difflib.SequenceMatcher(None, was, now, False)
        for kind, i, i_end, j, j_end in inner.get_opcodes():
            pairs = min(i_end - i, j_end - j)
            for k in range(pairs):
                found[f"`{was[i + k]}` with other arguments" if kind == "equal"
                      else f"`{was[i + k]}` became `{now[j + k]}`"] += 1
            found.update(f"`{op}` is gone" for op in was[i + pairs:i_end])
            found.update(f"`{op}` is new" for op in now[j + pairs:j_end])
    return found


releases = sorted((path.name for path in runs.iterdir()),
                  key=lambda name: [int(part) for part in name.split(".")])
results = {(release, kind): outcome(release, kind) for release in releases for kind in kinds}
sections = []


def compared(release, kind):
    both = (results[release, kind], results.get((CURRENT, kind)))
    if both != ("runs", "runs") or release == CURRENT:
        return ""
    left, right = ops_of(CURRENT, kind), ops_of(release, kind)
    found = differences(left[0], right[0]) + differences(left[1], right[1])
    others = [f"{len(left[place])} → {len(right[place])} {what}"
              for place, what in ((2, "events and waits"), (3, "markers"))
              if differences(left[place], right[place])]
    cell = f"{sum(found.values())} of {len(left[0] + left[1])} differ" if found else "equal"
    if found or others:
        lines = [f"- {count} × {text}" for text, count in found.most_common(SHOWN)]
        lines += [f"- and {len(found) - SHOWN} more kinds"] if len(found) > SHOWN else []
        lines += [f"- {other}" for other in others]
        sections.append(f"\n**{release}, {kind}**\n\n" + "\n".join(lines))
    return f"; {cell}" + ("" if found or not others else ", ordered otherwise")


def torch_of(release):
    for kind in kinds:
        summary = runs / release / kind / "summary.json"
        if summary.exists():
            return json.loads(summary.read_text())["torch"]
    return release


print("# What runs under which torch\n")
print(f"Written by `tests/matrix/run.sh` on {datetime.date.today()}: {RANKS} ranks, two of them in "
      "the sandbox. Kernels, copies and communication of an iteration of each role are compared one "
      f"by one with those of torch {CURRENT}, which Prism is developed with.\n")
print("| torch | " + " | ".join(kinds) + " |")
print("|---|" + "---|" * len(kinds))
for release in releases:
    cells = [results[release, kind] + compared(release, kind) for kind in kinds]
    print(f"| {torch_of(release)} | " + " | ".join(cells) + " |")
if sections:
    print(f"\n## What differs from torch {CURRENT}\n")
    print("Kernels are named without template arguments, with the framework's op that launches them; "
          "events, waits and markers are counted.")
    print("\n".join(sections))
