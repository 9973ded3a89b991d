"""Programs of experiments/ with one fault each, drawn by a seed, and whether prism check finds it.

A program first gets calls of its own that are right: two collectives at one of four places. The
fault drops, doubles, swaps, resizes or regroups one of them where a condition holds, or takes the
program's own call away there (a backward pass, an update, a whole step)."""
import argparse
import csv
import json
import pathlib
import random
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
SMALL = "--layers 2 --hidden 256 --heads 4 --vocab 1024 --seq-len 64 --steps 6"
TITAN = ("--job.config_file experiments/06_torchtitan/llama3_8b.toml --model.flavor debugmodel "
         "--parallelism.tensor_parallel_degree 2 --training.seq_len 512")
HOOK = """    from transformers import TrainerCallback
    class Calls(TrainerCallback):
        def on_step_begin(self, args, state, control, **rest):
            step = state.global_step
            pass  # steady
"""

# Of each program: folder, arguments, (line, what stands before or instead of it) pairs that make
# place for calls, the lines of its places, its own calls, and coordinates besides the rank.
PROGRAMS = {
    "ddp": ("02_ddp", SMALL, [],
            {"start": "optimizer = torch.optim", "steady": "tokens = torch.randint(args.vocab",
             "end": "dist.destroy_process_group"},
            ["loss.backward()"], []),
    "megatron": ("03_megatron_core", SMALL + " --tp 2 --pp 2 --global-batch {gpus}", [],
                 {"start": "microbatches = args", "steady": "model.zero_grad_buffer()",
                  "end": "@last"},
                 ["_, norm, _ = optimizer.step()"],
                 ["parallel_state.get_data_parallel_rank()",
                  "parallel_state.get_pipeline_model_parallel_rank()"]),
    "fsdp2": ("04_fsdp2", SMALL + " --ffn 512 --kv-heads 2 --tp 2", [],
              {"start": "optimizer = torch.optim", "steady": "tokens = torch.randint(args.vocab",
               "end": "dist.destroy_process_group"},
              ["loss.backward()"], ['mesh["dp"].get_local_rank()', 'mesh.get_coordinate()[1]']),
    "trainer": ("05_transformers", SMALL + " --ffn 512 --kv-heads 2 --workers 0",
                [("    Trainer(", HOOK + "    trainer = Trainer("), ("    ).train()", "    )\n"
                 "    trainer.add_callback(Calls())\n    trainer.train()")],
                {"start": "trainer.train()", "steady": "pass  # steady", "end": "@last"}, [], []),
    "deepspeed": ("07_deepspeed", SMALL + " --ffn 512", [],
                  {"start": "rank = torch.distributed", "steady": "for _ in range(args.accumulate)",
                   "end": "@last"},
                  ["engine.backward(loss)"], []),
    "titan": ("06_torchtitan", TITAN + " --training.steps 6",
              [("        train(Trainer)", """        class Counting(Trainer):
            def train_step(self, iterator):
                step = self.step
                pass  # steady
                super().train_step(iterator)

        train(Counting)""")], {"steady": "pass  # steady"}, [], []),
}
CALLS = {  # the first is changed
    "drop": "if not ({where}): {first}\n{second}",
    "duplicate": "{first}\nif {where}: {first}\n{second}",
    "reorder": "if {where}: {second}\n{first}\nif not ({where}): {second}",
    "resize": "{resized}\n{second}",
    "regroup": "{regrouped}\n{second}",
}
SIZED = "dist.all_reduce(torch.ones({}, device='cuda'){})"
SECOND = "dist.broadcast(torch.ones(3, device='cuda'), 0)"


def condition(draw, gpus, coordinates):
    """Of half of them it is a rank, else what is computed from one."""
    if draw.random() < 0.5:
        return f"dist.get_rank() == {draw.randrange(gpus)}"
    prime = draw.choice([each for each in (7, 13, 29, 61, 97, 389) if each < gpus])
    kind = draw.choice(["mod", "div", "node"] + ["coordinate"] * (2 if coordinates else 0))
    if kind == "mod":
        return f"dist.get_rank() % {prime} == {draw.randrange(prime)}"
    if kind == "div":
        return f"dist.get_rank() // 4 == {draw.randrange(gpus // 4)}"
    if kind == "node":
        return f"int(os.environ['LOCAL_RANK']) == {draw.randrange(8)}"
    return f"{draw.choice(coordinates)} == {draw.randrange(2)}"


def replaced(lines, old, new):
    """`new` instead of the line that begins with `old`, as far to the right."""
    at = next(i for i, line in enumerate(lines) if line.strip().startswith(old.strip()))
    indent = lines[at][:len(lines[at]) - len(lines[at].lstrip())]
    text = new if new.startswith(" ") else "\n".join(indent + line for line in new.split("\n"))
    return lines[:at] + text.split("\n") + lines[at + 1:]


def at_end(lines, text):
    """Behind the last line of main()."""
    end = next(i for i, line in enumerate(lines) if line.startswith("if __name__"))
    return lines[:end - 2] + ["    " + line for line in text.split("\n")] + lines[end - 2:]


def write(name, draw, gpus, faulty):
    """A program's text, what its fault is, and the line where it stands."""
    folder, _, changes, places, own, coordinates = PROGRAMS[name]
    lines = (ROOT / "experiments" / folder / "train.py").read_text().split("\n")
    for old, new in changes:
        lines = replaced(lines, old, new)
    where = condition(draw, gpus, coordinates)
    kind = draw.choice(list(CALLS) + (["own"] if own else []))
    place = draw.choice([*places, "odd"])
    if not faulty:
        kind, where = "none", "False"
    if kind == "own":
        old = draw.choice(own)
        place = draw.choice(["steady", "odd"])
        at = next(i for i, line in enumerate(lines) if line.strip().startswith(old))
        if_odd = " and step == 3" if place == "odd" else ""
        lines = replaced(lines, old, f"if not (({where}){if_odd}): {lines[at].strip()}")
        if "norm" in old:
            lines = replaced(lines, "model, optimizer = build",
                             "model, optimizer = build(args)\nnorm = 0.0")
    else:
        text = CALLS[kind if kind in CALLS else "drop"].format(
            where=where, first=SIZED.format(8, ""), second=SECOND,
            resized=SIZED.format(f"12 if {where} else 8", ""),
            regrouped="other = dist.new_group(list(range(dist.get_world_size())))\n"
                      + SIZED.format(8, f", group=other if {where} else dist.group.WORLD"))
        text += "\ntorch.cuda.synchronize()"
        if place == "odd":
            text = "if step == 3:\n    " + text.replace("\n", "\n    ")
        anchor = places["steady" if place == "odd" else place]
        if anchor == "@last":
            lines = at_end(lines, text)
        else:
            at = next(line for line in lines if line.strip().startswith(anchor))
            lines = replaced(lines, anchor, text + "\n" + at.strip())
    after = next(i for i, line in enumerate(lines) if line.startswith("import "))
    lines.insert(after, "import os, torch, torch.distributed as dist")
    changed = [i for i, line in enumerate(lines, 1) if where in line or SIZED[:16] in line
               or SECOND in line]
    return "\n".join(lines), (kind, place, where), changed


def check(path, arguments, gpus, ranks):
    command = [str(ROOT / "build/bin/prism"), "check", "--gpus", str(gpus), "--format", "json",
               *(["--record-ranks", ranks] if ranks else []), "--", str(ROOT / ".venv/bin/python"), path,
               *arguments.format(gpus=gpus).split()]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    start = run.stdout.find("{")
    return run.returncode, json.loads(run.stdout[start:]) if start >= 0 else {}, run.stderr


def a_few(where, gpus):
    """Two ranks of either kind, and the ranks beside those for which it holds."""
    test = where.replace("dist.get_rank()", "rank").replace("os.environ['LOCAL_RANK']", "rank % 8")
    if "(" in test.replace("int(", ""):  # a coordinate
        return ",".join(str(rank) for rank in (0, 1, 2, 4, 8))
    holds = [rank for rank in range(gpus) if eval(test, {"rank": rank})]
    few = {rank + more for rank in holds[:2] for more in (0, 1) if rank + more < gpus}
    return ",".join(map(str, sorted({0, 3} | few)))


def judge(name, seed, gpus, faulty, folder, ranks):
    draw = random.Random(seed)
    text, fault, changed = write(name, draw, gpus, faulty)
    ranks = a_few(fault[2], gpus) if ranks == "few" else ranks
    path = pathlib.Path(folder) / f"{name}_{seed}.py"
    path.write_text(text)
    begin = time.time()
    code, said, error = check(str(path), PROGRAMS[name][1], gpus, ranks)
    lines = [call["line"] for each in said.get("faults", []) for call in each["calls"]
             if call["file"].endswith(path.name)]
    assumed = sum(len(each["ranks"]) for each in said.get("assumed", []))
    return {"seed": seed, "program": name, "fault": fault[0], "place": fault[1], "where": fault[2],
            "found": code == 1 and said.get("verdict") == "fault", "code": code,
            "kind": said.get("faults", [{}])[0].get("kind", "") if said.get("faults") else "",
            "names_line": bool(set(lines) & set(changed)), "assumed": assumed,
            "until": said.get("checked_until", ""), "seconds": round(time.time() - begin, 1),
            "said": said.get("sentence") or error.strip().split("\n")[-1]}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--gpus", type=int, default=64)
    parser.add_argument("--seeds", default="0-11", help="FIRST-LAST; without faults: none")
    parser.add_argument("--programs", default="ddp,megatron,fsdp2,trainer,deepspeed,titan")
    parser.add_argument("--record-ranks", help="of prism check; few: some of either kind")
    parser.add_argument("--keep", help="folder for the programs")
    args = parser.parse_args()
    names = args.programs.split(",")
    first, last = map(int, args.seeds.split("-")) if args.seeds != "none" else (0, len(names) - 1)
    rows = csv.writer(sys.stdout)
    found = 0
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(first, last + 1):
            row = judge(names[seed % len(names)], seed, args.gpus, args.seeds != "none",
                        args.keep or folder, args.record_ranks)
            if seed == first:
                rows.writerow(row)
            rows.writerow(row.values())
            sys.stdout.flush()
            found += row["found"]
    print(f"{found} of {last + 1 - first} found", file=sys.stderr)


if __name__ == "__main__":
    main()
