#!/usr/bin/env python3
"""Predictions for published times of single transformer layers.

    python3 layer_times.py korthikanti_table4_layer.csv [--prism PROGRAM]

`prism bench accuracy` predicts iterations. The time of a layer's two passes is what one more layer
adds to one more micro-batch: of four jobs that differ in both alone, the difference of differences,
in which embedding, head, optimizer and reduction of gradients cancel.
"""
import argparse
import csv
import os
import subprocess
import tempfile

SHAPE = "hidden heads ffn vocab seq_len micro_batch tp sp recompute precision gpu source_ref".split()
LAYERS = (4, 8)
MICROBATCHES = (4, 8)


def read(path):
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def job(row, layers, microbatches):
    """A row of the training tables: one replica of a model of such layers."""
    published = {column: row[column] for column in SHAPE}
    return published | {
        "id": f"{row['id']}/{layers}/{microbatches}", "source_key": row["source_key"],
        "model": row["model"], "framework": "Megatron-LM", "layers": layers, "pp": 1, "dp": 1,
        "gpus_per_node": 8, "num_gpus": row["tp"], "grad_accum": microbatches,
        "global_batch": microbatches * int(row["micro_batch"]), "iter_time_s": 1}


def predicted_seconds(prism, jobs):
    """By id."""
    with tempfile.TemporaryDirectory() as folder:
        table, errors = os.path.join(folder, "table.csv"), os.path.join(folder, "errors.csv")
        with open(table, "w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, fieldnames=list(jobs[0]))
            writer.writeheader()
            writer.writerows(jobs)
        subprocess.run([prism, "bench", "accuracy", table, "--out", errors],
                       capture_output=True, check=True)
        return {row["id"]: float(row["predicted_s"]) for row in read(errors)}


def layer_ms(row, seconds):
    (few, many), (short, long) = LAYERS, MICROBATCHES
    added = {layers: seconds[f"{row['id']}/{layers}/{long}"] - seconds[f"{row['id']}/{layers}/{short}"]
             for layers in LAYERS}
    return (added[many] - added[few]) / (many - few) / (long - short) * 1e3


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("table")
    parser.add_argument("--prism", default="build/bin/prism")
    arguments = parser.parse_args()
    rows = read(arguments.table)
    seconds = predicted_seconds(arguments.prism,
                                [job(row, layers, microbatches) for row in rows
                                 for layers in LAYERS for microbatches in MICROBATCHES])
    print("row, sequence parallel, recompute, measured ms, predicted ms, error %")
    for row in rows:
        measured, predicted = float(row["total_ms"]), layer_ms(row, seconds)
        print(f"{row['id'].rsplit('-', 1)[1]}, {row['sp']}, {row['recompute']}, {measured:.1f}, "
              f"{predicted:.2f}, {predicted / measured * 100 - 100:+.1f}")


if __name__ == "__main__":
    main()
