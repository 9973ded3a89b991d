#!/usr/bin/env python3
"""Records the programs of rows.csv as a user would run them, and writes results_default.csv: measured, recorded and
synthesised seconds and bytes of each published row. From the repository's root:
experiments/recorded/run.py [--only WORD] [--options "--host-time python"] [--results FILE]"""
import argparse
import csv
import datetime
import io
import json
import os
import pathlib
import shlex
import subprocess
import tempfile

HERE = pathlib.Path(__file__).parent
TABLES = pathlib.Path("../shared/groundtruth")
BIN = pathlib.Path("build/bin")
GIB = 2**30


def version():
    text = subprocess.run([BIN / "prism", "--version"], capture_output=True, text=True, check=True)
    return text.stdout.splitlines()[0]


def record(cluster, gpus, program, options):
    with tempfile.TemporaryDirectory() as folder:
        words, environment = shlex.split(program), dict(os.environ)
        while "=" in words[0]:
            name, value = words.pop(0).split("=", 1)
            environment[name] = value
        command = [
            BIN / "prism-emulate", "--target-gpus", gpus, "--cluster", cluster, "--sandbox-ranks",
            "none", "--out", f"{folder}/run", *shlex.split(options), "--", ".venv/bin/python",
            *words,
        ]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=environment)
        summary = json.loads(pathlib.Path(folder, "run/summary.json").read_text())
        *_, last = csv.DictReader(open(f"{folder}/run/ranks.csv"))  # published rows are of it
    return summary["iteration_time_s"], int(last["peak_allocated_bytes"])


def synthesised(table):
    """Prediction by row of a published table."""
    out = subprocess.run([BIN / "prism", "bench", "accuracy", TABLES / f"{table}.csv"],
                         capture_output=True, text=True, check=True)
    return {row["id"]: row for row in csv.DictReader(io.StringIO(out.stdout))}


def error(value, measured):
    return f"{100 * (value / measured - 1):+.1f}" if value and measured else ""


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="rows whose line has this text")
    parser.add_argument("--options", default="", help="of prism-emulate, besides")
    parser.add_argument("--results", default=str(HERE / "results_default.csv"))
    args = parser.parse_args()
    runs, tables, measured, results = {}, {}, {}, []
    for row in csv.DictReader(open(HERE / "rows.csv")):
        if args.only not in ",".join(row.values()):
            continue
        table = row["row"].rsplit("-", 1)[0]
        if table not in tables:
            tables[table] = synthesised(table)
            measured[table] = {r["id"]: r for r in csv.DictReader(open(TABLES / f"{table}.csv"))}
        key = (row["cluster"], row["gpus"], row["program"])
        if key not in runs:
            runs[key] = record(*key, args.options)
        recorded_s, recorded_bytes = runs[key]
        published, drawn = measured[table][row["row"]], tables[table].get(row["row"], {})
        measured_s = float(published["iter_time_s"] or published["iter_time_derived_s"] or 0)
        measured_gib = float(published["peak_mem_gib"] or 0)
        drawn_s = float(drawn.get("predicted_s") or 0)
        drawn_gib = float(drawn.get("predicted_bytes") or 0) / GIB
        results.append({
            "row": row["row"], "cluster": row["cluster"], "program": row["program"],
            "measured_s": measured_s, "recorded_s": f"{recorded_s:.4f}",
            "recorded_error_pct": error(recorded_s, measured_s), "synthesised_s": f"{drawn_s:.4f}",
            "synthesised_error_pct": error(drawn_s, measured_s), "measured_gib": measured_gib,
            "recorded_gib": f"{recorded_bytes / GIB:.3f}", "synthesised_gib": f"{drawn_gib:.3f}",
            "options": args.options, "date": datetime.date.today().isoformat(), "version": version(),
        })
        print(results[-1]["row"], results[-1]["recorded_error_pct"], flush=True)
    with open(f"{args.results}.part", "w", newline="") as out:
        writer = csv.DictWriter(out, results[0].keys(), lineterminator="\n")
        writer.writeheader()
        writer.writerows(results)
    os.replace(f"{args.results}.part", args.results)


if __name__ == "__main__":
    main()
