#!/usr/bin/env python3
"""How much predictions lean on other rows of their table.

    python3 rows_alone.py TABLE.csv... [--prism PROGRAM] [--share 0.25] [--draws 6]

A row that leaves something out (its plan, its recipe, a size of its model) may take it from another
row of its table. Here a drawn part of each table is predicted as a table of its own. Prints the mean
error of the drawn rows with and without the rest of their table, and the rows that change by more
than 1 %, with the error before and after.
"""
import argparse
import csv
import os
import random
import subprocess
import tempfile


def read(path):
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def predicted(prism, rows):
    """By id: what `prism bench accuracy` says of a table of these rows."""
    with tempfile.TemporaryDirectory() as folder:
        table, errors = os.path.join(folder, "table.csv"), os.path.join(folder, "errors.csv")
        with open(table, "w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, fieldnames=list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
        subprocess.run([prism, "bench", "accuracy", table, "--out", errors],
                       capture_output=True, check=True)
        return {row["id"]: row for row in read(errors)}


def compare(path, arguments):
    rows = read(path)
    whole = predicted(arguments.prism, rows)
    pairs, changed = [], {}
    for seed in range(arguments.draws):
        generator = random.Random(seed)
        drawn = [row for row in rows if generator.random() < arguments.share]
        for name, alone in predicted(arguments.prism, drawn).items() if drawn else ():
            if not whole[name]["error_pct"]:
                continue
            before = float(whole[name]["error_pct"])
            after = float(alone["error_pct"] or "nan")
            pairs.append((abs(before), abs(after)))
            if not abs((100 + after) / (100 + before) - 1) <= 0.01:
                changed.setdefault(name, set()).add(f"{before:+.1f} to {after:+.1f}")
    if not pairs:
        return
    mean = [sum(column) / len(pairs) for column in zip(*pairs)]
    print(f"{os.path.basename(path):<32}{len(pairs):>6} rows drawn, MAPE {mean[0]:.2f} % with the rest "
          f"of the table, {mean[1]:.2f} % alone")
    for name, errors in sorted(changed.items()):
        print(f"  {name}: {', '.join(sorted(errors))}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("tables", nargs="+")
    parser.add_argument("--prism", default="build/bin/prism")
    parser.add_argument("--share", type=float, default=0.25)
    parser.add_argument("--draws", type=int, default=6)
    arguments = parser.parse_args()
    for path in arguments.tables:
        compare(path, arguments)


if __name__ == "__main__":
    main()
