#!/usr/bin/env python3
"""Writes the error pages: a folder a source with rows, errors, plot and largest residuals.

    python3 make_pages.py --groundtruth FOLDER [--prism PROGRAM] [TABLE...]

For every table: experiments/accuracy/<table>/ with errors.csv (what `prism bench accuracy` writes),
plot.svg (predicted against measured) and a README.md whose part above the line
"## Largest residuals" is written anew and whose reasons below it are kept, like what stands below
"## Found".
"""
import argparse
import csv
import math
import os
import re
import subprocess

HERE = os.path.dirname(os.path.abspath(__file__))
PAGES = os.path.join(HERE, "..", "accuracy")
TABLES = ("vtrain_multi megatron_sc21_table1 megatron_sc21_table2 korthikanti_table5 "
          "megascale_table2 bloom_a100_topology mpt_llmfoundry dgxc_benchmarking mlperf_training "
          "torchtitan nanotron_ultrascale nemo_2407_perf megatron_core_h100_scaling mtnlg_530b "
          "megatron_bridge_perf moe_modelzoo megatron_2020_readme neusight_distributed "
          "nemo_long_context llama3_table4 vtrain_single").split()


def read(path):
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def compared(rows):
    return [row for row in rows if row["error_pct"] and not row["reason_skipped"]]


def plot(rows, title):
    """Predicted against measured seconds, both logarithmic, with the diagonal and 10 % bands."""
    size, edge = 420, 46
    values = [float(row[key]) for row in rows for key in ("predicted_s", "measured_s")]
    low, high = math.log10(min(values)) - 0.08, math.log10(max(values)) + 0.08

    def place(value):
        return (math.log10(value) - low) / (high - low) * (size - 2 * edge)

    def x(value):
        return edge + place(value)

    def y(value):
        return size - edge - place(value)

    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{size}" height="{size}" '
             'font-family="sans-serif" font-size="11">',
             f'<rect width="{size}" height="{size}" fill="white"/>',
             f'<rect x="{edge}" y="{edge}" width="{size - 2 * edge}" height="{size - 2 * edge}" '
             'fill="none" stroke="#888"/>']
    first, last = 10 ** low, 10 ** high
    for factor, dash in ((1, ""), (1.1, ' stroke-dasharray="3 3"'), (1 / 1.1, ' stroke-dasharray="3 3"')):
        begin, end = max(first, first / factor), min(last, last / factor)
        parts.append(f'<line x1="{x(begin):.1f}" y1="{y(begin * factor):.1f}" x2="{x(end):.1f}" '
                     f'y2="{y(end * factor):.1f}" stroke="#aaa"{dash}/>')
    for row in rows:
        parts.append(f'<circle cx="{x(float(row["measured_s"])):.1f}" '
                     f'cy="{y(float(row["predicted_s"])):.1f}" r="2.6" fill="#1f6fb4" '
                     f'fill-opacity="0.55"><title>{row["id"]} {float(row["error_pct"]):+.1f} %'
                     '</title></circle>')
    for power in range(math.ceil(low), math.floor(high) + 1):
        value = 10.0 ** power
        parts.append(f'<text x="{x(value):.1f}" y="{size - edge + 15}" text-anchor="middle">{value:g}</text>')
        parts.append(f'<text x="{edge - 5}" y="{y(value) + 4:.1f}" text-anchor="end">{value:g}</text>')
    parts += [f'<text x="{size / 2}" y="{size - 8}" text-anchor="middle">measured, s</text>',
              f'<text x="12" y="{size / 2}" text-anchor="middle" '
              f'transform="rotate(-90 12 {size / 2})">predicted, s</text>',
              f'<text x="{size / 2}" y="24" text-anchor="middle">{title}</text>', '</svg>']
    return "\n".join(parts) + "\n"


def plan_of(row):
    names = (("model", ""), ("tp", "tp "), ("pp", "pp "), ("vpp", "vpp "), ("cp", "cp "), ("ep", "ep "),
             ("dp", "dp "), ("micro_batch", "mb "), ("global_batch", "batch "), ("seq_len", "seq "),
             ("num_gpus", "GPUs "), ("precision", ""))
    return ", ".join(prefix + row[name] for name, prefix in names if row.get(name))


def llama_flops(row):
    """Of a step, as NeMo counts them: attention over the whole square, though half is masked."""
    layers, hidden, length = (float(row[key]) for key in ("layers", "hidden", "seq_len"))
    groups = float(row["kv_heads"]) / float(row["heads"])
    terms = (12 + 12 * groups + 18 * float(row["ffn"]) / hidden + 12 * length / hidden +
             6 * float(row["vocab"]) / (layers * hidden))
    return float(row["global_batch"]) * length * layers * hidden ** 2 * terms


def throughput(predicted, by_id):
    """Rows that print model TFLOP/s and a plan, though no time."""
    text = ""
    for row in predicted:
        source = by_id[row["id"]]
        if not (row["predicted_s"] and source["tflops_per_gpu"] and source["tp"]):
            continue
        printed = float(source["tflops_per_gpu"])
        own = llama_flops(source) / float(row["predicted_s"]) / float(source["num_gpus"]) / 1e12
        text += (f"| {row['id'].rsplit('-', 1)[1]} | {source['gpu'].split()[0]} | {plan_of(source)} | "
                 f"{printed:.0f} | {own:.0f} | {100 * (printed / own - 1):+.1f} |\n")
    if not text:
        return ""
    return ("\n## Throughput\n\nModel TFLOP/s a GPU, as NeMo counts them (`llama_flops` in "
            "`make_pages.py`), of rows that print their plan; the error is that of the time.\n\n"
            "| row | GPU | plan | printed | predicted | error, % |\n|---|---|---|---:|---:|---:|\n" + text)


def page(table, rows, predicted, source_rows, summary, kept):
    by_id = {row["id"]: row for row in source_rows}
    worst = sorted(rows, key=lambda row: -abs(math.log1p(float(row["error_pct"]) / 100)))[:10]
    text = f"# {table}\n\n"
    text += (f"Published rows of `{table}.csv`, predicted by\n\n```\nprism bench accuracy "
             f"../shared/groundtruth/{table}.csv --out errors.csv\n```\n\nEvery predicted row is in "
             "`errors.csv`; what it printed:\n\n```\n" + summary.strip() + "\n```\n\n")
    if rows:
        text += "![predicted against measured](plot.svg)\n\n"
    text += "## Largest residuals\n\n"
    if not rows:
        return text + "No row of this table has a measured iteration time.\n" + throughput(predicted, by_id)
    text += "| row | plan | measured, s | error, % | reason |\n|---|---|---:|---:|---|\n"
    for row in worst:
        reason = kept.get(row["id"], "not found")
        text += (f"| {row['id'].rsplit('-', 1)[1]} | {plan_of(by_id[row['id']])} | "
                 f"{float(row['measured_s']):.4g} | {float(row['error_pct']):+.1f} | {reason} |\n")
    return text


def findings(path):
    """What somebody has written below the heading "## Found", which is kept."""
    if not os.path.exists(path):
        return ""
    with open(path, encoding="utf-8") as file:
        _, heading, rest = file.read().partition("\n## Found\n")
    return heading + rest


def kept_reasons(path, table):
    if not os.path.exists(path):
        return {}
    with open(path, encoding="utf-8") as file:
        lines = file.read().splitlines()
    reasons = {}
    for line in lines:
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 5 and re.fullmatch(r"\d{4}", cells[0]) and cells[4] != "not found":
            reasons[f"{table}-{cells[0]}"] = cells[4]
    return reasons


def write(path, text):
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("tables", nargs="*")
    parser.add_argument("--groundtruth", required=True)
    parser.add_argument("--prism", default="build/bin/prism")
    arguments = parser.parse_args()
    for table in arguments.tables or TABLES:
        folder = os.path.join(PAGES, table)
        os.makedirs(folder, exist_ok=True)
        source = os.path.join(arguments.groundtruth, table + ".csv")
        errors = os.path.join(folder, "errors.csv")
        run = subprocess.run([arguments.prism, "bench", "accuracy", source, "--out", errors],
                             capture_output=True, text=True, check=True)
        summary = "\n".join(line for line in run.stdout.splitlines() if " rows/s" not in line)
        rows = compared(read(errors))
        readme = os.path.join(folder, "README.md")
        text = page(table, rows, read(errors), read(source), summary, kept_reasons(readme, table))
        write(readme, text + findings(readme))
        if rows:
            write(os.path.join(folder, "plot.svg"), plot(rows, table))
        print(summary.splitlines()[0], flush=True)


if __name__ == "__main__":
    main()
