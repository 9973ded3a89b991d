#!/usr/bin/env python3
"""Fits parameters of profiles (launch/presets/) to published iteration times.

    python fit.py PLAN.toml --groundtruth FOLDER [--prism PROGRAM] [--presets FOLDER]
        [--write] [--from-presets] [--hold-out table|model|gpu]

A plan names tables, rows and parameters with bounds. Every parameter is one number of one profile:
of a GPU type, a cluster or a framework, never of a row, a model or a plan of parallelism. Log
ratios of predicted to measured are minimised with soft-L1 weights (Huber-like, so that a row which
the model cannot explain does not bend the rest; `loss = "cauchy"` where many rows are of a second
kind that no column tells), by Gauss-Newton steps within the bounds (scipy.optimize.lsq_linear). `prior` is the width, in log units, to which a parameter is held to
its start where the data say nothing, `ridge` how much that counts: chosen among 0.01, 0.02 and 0.04
by what --hold-out prints.

`prism bench accuracy --parameter-sets` predicts all rows for a batch of parameter sets at once.
"""
import argparse
import csv
import math
import os
import re
import subprocess
import sys
import tempfile
import tomllib

import numpy as np
from scipy.optimize import lsq_linear

SOFT = 0.04  # log ratio at which soft-L1 turns from squares to absolute values
RIDGE = 0.02  # how much one prior width counts, in log units of one vote, unless a plan has its own


class Rows:
    """Rows that a plan fits, in one file of their own: tables, less what `leave_out` matches."""

    def __init__(self, plan, folder):
        self.rows = []
        for name in plan["tables"]:
            with open(os.path.join(folder, name + ".csv"), newline="", encoding="utf-8") as file:
                self.rows += [row for row in csv.DictReader(file)
                              if self._chosen(row, plan) and math.isfinite(self._seconds(row))]
        if not self.rows:
            sys.exit("the plan's `where` and `leave_out` leave no measured row of its tables")
        # Deleted with this object.
        self.folder = tempfile.TemporaryDirectory()
        self.path = os.path.join(self.folder.name, "rows.csv")
        with open(self.path, "w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, fieldnames=list(self.rows[0]))
            writer.writeheader()
            writer.writerows(self.rows)
        self.measured = np.array([self._seconds(row) for row in self.rows])
        self.table = np.array([row["source_key"] for row in self.rows])
        self.model = np.array([row["model"] for row in self.rows])
        self.gpu = np.array([row["gpu"].split()[0].split("-")[0] for row in self.rows])
        self.fitted = np.ones(len(self.rows), dtype=bool)
        self.loss = plan.get("loss", "soft-L1")
        self.ridge = plan.get("ridge", RIDGE)

    @staticmethod
    def _seconds(row):
        if "prediction" in row["run_kind"].lower():
            return math.nan
        for column in ("iter_time_s", "iter_time_derived_s"):
            if row.get(column):
                return float(row[column])
        return math.nan

    @staticmethod
    def _chosen(row, plan):
        wanted = all(re.search(pattern, row[column])
                     for column, pattern in plan.get("where", {}).items())
        return wanted and not any(re.search(pattern, row[column])
                                  for column, pattern in plan.get("leave_out", {}).items())


class Evaluation:
    """Predicted seconds of all rows for batches of parameter sets."""

    def __init__(self, prism, rows, names):
        self.prism, self.rows, self.names = prism, rows, names
        self.calls = 0

    def __call__(self, sets):
        with tempfile.NamedTemporaryFile("w", suffix=".sets", delete=False) as file:
            for values in sets:
                pairs = (f"{name}={value:.9g}" for name, value in zip(self.names, values))
                file.write(" ".join(pairs) + "\n")
        try:
            run = subprocess.run(
                [self.prism, "bench", "accuracy", self.rows.path, "--parameter-sets", file.name],
                capture_output=True, text=True, check=False)
        finally:
            os.unlink(file.name)
        if run.returncode != 0:
            sys.exit(run.stderr)
        self.calls += len(sets)
        return np.array([[float(word) for word in line.split()]
                         for line in run.stdout.splitlines()])


def soft_weights(residuals, loss):
    """Square root of the weight of a residual."""
    return (1 + (residuals / SOFT) ** 2) ** (-0.5 if loss == "cauchy" else -0.25)


def cost_of(residuals, weights, shift, loss):
    z = (residuals / SOFT) ** 2
    each = np.log1p(z) if loss == "cauchy" else 2 * (np.sqrt(1 + z) - 1)
    return np.sum(weights ** 2 * SOFT ** 2 * each) + np.sum(shift ** 2)


def table_weights(rows, mask):
    """Between one vote a row and one vote a table."""
    weights = np.zeros(len(rows.table))
    for name in np.unique(rows.table[mask]):
        chosen = mask & (rows.table == name)
        weights[chosen] = chosen.sum() ** -0.25
    return weights


def fit(evaluate, rows, parameters, mask, start=None, steps=8, quiet=False):
    """Returns the parameters and the predictions with them."""
    low = np.log([p["low"] for p in parameters])
    high = np.log([p["high"] for p in parameters])
    origin = np.log([p["start"] for p in parameters])
    prior = np.array([p.get("prior", 0.5) for p in parameters])
    x = np.clip(origin if start is None else np.log(start), low + 1e-9, high - 1e-9)
    predicted = evaluate([np.exp(x)])[0]
    mask = mask & np.isfinite(predicted) & np.isfinite(rows.measured)
    weights = table_weights(rows, mask)[mask]

    def state(prediction, point):
        residuals = np.log(prediction[mask] / rows.measured[mask])
        return residuals, cost_of(residuals, weights, rows.ridge * (point - origin) / prior,
                                  rows.loss)

    residuals, cost = state(predicted, x)
    for step in range(steps):
        delta = np.where(x + 0.02 < high, 0.02, -0.02)
        moved = evaluate([np.exp(x + delta * unit) for unit in np.eye(len(x))])
        jacobian = (np.log(moved[:, mask]) - np.log(predicted[mask])).T / delta
        scale = (weights * soft_weights(residuals, rows.loss))[:, None]
        matrix = np.vstack([jacobian * scale, np.diag(rows.ridge / prior)])
        target = np.concatenate([-residuals * scale[:, 0], -rows.ridge * (x - origin) / prior])
        solution = lsq_linear(matrix, target, bounds=(np.maximum(low - x, -0.5) - 1e-9,
                                                      np.minimum(high - x, 0.5) + 1e-9)).x
        trials = [np.clip(x + share * solution, low, high) for share in (1, 0.6, 0.3, 0.1)]
        outcomes = evaluate([np.exp(trial) for trial in trials])
        costs = np.array([state(outcome, trial)[1] for outcome, trial in zip(outcomes, trials)])
        # A trial with which a row cannot be predicted does not count; argmin would choose it.
        best = int(np.argmin(np.where(np.isfinite(costs), costs, np.inf)))
        if not costs[best] < cost * (1 - 1e-4):
            break
        x, predicted = trials[best], outcomes[best]
        residuals, cost = state(predicted, x)
        if not quiet:
            print(f"  step {step + 1}: cost {cost:.5f}, "
                  f"MAPE {100 * np.mean(np.abs(np.exp(residuals) - 1)):.2f} %", flush=True)
    return np.exp(x), predicted, mask


def statistics(predicted, measured):
    errors = 100 * np.abs(predicted / measured - 1)
    return (len(errors), errors.mean(), np.median(errors), np.quantile(errors, 0.9), errors.max(),
            100 * np.mean(predicted / measured - 1))


def print_errors(title, predicted, rows, mask):
    print(f"{title:<34}{'rows':>6}{'MAPE':>8}{'median':>8}{'p90':>8}{'worst':>8}{'bias':>8}")
    names = sorted(set(rows.table[mask]))
    for name in names + (["pooled"] if len(names) > 1 else []):
        chosen = mask if name == "pooled" else mask & (rows.table == name)
        count, *numbers = statistics(predicted[chosen], rows.measured[chosen])
        print(f"  {name:<32}{count:>6}" + "".join(f"{number:>8.2f}" for number in numbers))


def hold_out(evaluate, rows, parameters, labels, what, folder):
    """Every label in turn is left out of the fit and predicted by what the rest gives.

    The model is taken as linear in the logarithms of the parameters around the values in `folder`
    (one Jacobian for all labels); each fit begins at the starts of the plan.
    """
    low = np.log([p["low"] for p in parameters])
    high = np.log([p["high"] for p in parameters])
    origin = np.clip(np.log([p["start"] for p in parameters]), low, high)
    prior = np.array([p.get("prior", 0.5) for p in parameters])
    at = np.clip(np.log([value_of(folder, p["profile"], p["key"]) for p in parameters]), low, high)
    sets = [np.exp(at)] + [np.exp(at + 0.03 * unit) for unit in np.eye(len(at))]
    logs = np.log(evaluate(sets))
    jacobian = (logs[1:] - logs[0]).T / 0.03
    truth = np.log(rows.measured)
    held = np.full(len(truth), np.nan)
    known = np.isfinite(logs).all(axis=0)
    for label in sorted(set(labels)):
        rest, x = known & (labels != label), origin.copy()
        weights = table_weights(rows, rest)
        for _ in range(30):
            residuals = (logs[0] + jacobian @ (x - at) - truth)[rest]
            scale = (weights[rest] * soft_weights(residuals, rows.loss))[:, None]
            matrix = np.vstack([jacobian[rest] * scale, np.diag(rows.ridge / prior)])
            target = np.concatenate([-residuals * scale[:, 0], -rows.ridge * (x - origin) / prior])
            x = x + lsq_linear(matrix, target, bounds=(low - x - 1e-9, high - x + 1e-9)).x
        left = known & (labels == label)
        held[left] = np.exp(logs[0] + jacobian @ (x - at))[left]
    everything = np.isfinite(held)
    print_errors(f"each {what} left out in turn", held, rows, everything)
    for label in sorted(set(labels[everything])):
        chosen = everything & (labels == label)
        count, *numbers = statistics(held[chosen], rows.measured[chosen])
        print(f"  without {label:<24}{count:>6}" + "".join(f"{number:>8.2f}" for number in numbers))


def value_of(folder, profile, key):
    """What a profile, or one that it builds on, gives a parameter; else the class of its GPUs."""
    with open(os.path.join(folder, profile + ".toml"), "rb") as file:
        table = tomllib.load(file)
    value = table.get("parameters", {})
    for part in key.split("."):
        value = value.get(part, {})
    if value:
        return value["value"]
    for below in table.get("profiles", []):
        found = value_of(folder, below, key)
        if found is not None:
            return found
    return 1.0 if key == "gpu.sustained_clock" else None


def with_parameter(text, line):
    """A profile's text with one more line behind its last parameter."""
    if "[parameters]" not in text:
        text = text.rstrip() + "\n\n[parameters]\n"
    last = list(re.finditer(r"^(\[parameters\]|\S+ = \{ value = .*)\n", text, re.MULTILINE))[-1]
    return text[:last.end()] + line + "\n" + text[last.end():]


def write_presets(folder, names, values, note):
    """Puts fitted values into the profiles' files, marked fitted, with the plan as their source."""
    for name, value in zip(names, values):
        profile, key = name.split(":")
        path = os.path.join(folder, profile + ".toml")
        with open(path, encoding="utf-8") as file:
            text = file.read()
        pattern = re.compile(rf"^{re.escape(key)} = \{{ value = [^,]+, unit = \"([^\"]+)\".*\}}$",
                             re.MULTILINE)
        found = pattern.search(text)
        if found:
            unit = found.group(1)
        else:
            unit = unit_of(folder, key)
        line = (f"{key} = {{ value = {value:.4g}, unit = \"{unit}\", "
                f"source = \"{note}\", mark = \"fitted\" }}")
        if found:
            text = text[:found.start()] + line + text[found.end():]
        else:
            text = with_parameter(text, line)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)


def unit_of(folder, key):
    for root, _, files in os.walk(folder):
        for name in sorted(files):
            with open(os.path.join(root, name), encoding="utf-8") as file:
                found = re.search(rf"^{re.escape(key)} = .*unit = \"([^\"]+)\"", file.read(),
                                  re.MULTILINE)
            if found:
                return found.group(1)
    sys.exit(f"no preset gives {key} a unit")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("plan")
    parser.add_argument("--groundtruth", required=True)
    parser.add_argument("--prism", default="build/bin/prism")
    parser.add_argument("--presets", default="launch/presets")
    parser.add_argument("--write", action="store_true", help="put fitted values into the presets")
    parser.add_argument("--from-presets", action="store_true",
                        help="begin at the presets' values instead of the plan's starts")
    parser.add_argument("--hold-out", choices=["table", "model", "gpu"])
    parser.add_argument("--steps", type=int, default=8)
    arguments = parser.parse_args()
    with open(arguments.plan, "rb") as file:
        plan = tomllib.load(file)
    rows = Rows(plan, arguments.groundtruth)
    parameters = plan["parameters"]
    names = [f"{p['profile']}:{p['key']}" for p in parameters]
    evaluate = Evaluation(arguments.prism, rows, names)
    if arguments.hold_out:
        labels = {"table": rows.table, "model": rows.model, "gpu": rows.gpu}[arguments.hold_out]
        hold_out(evaluate, rows, parameters, labels, arguments.hold_out, arguments.presets)
        return
    begin = None
    if arguments.from_presets:
        begin = [value_of(arguments.presets, p["profile"], p["key"]) or p["start"] for p in parameters]
    values, predicted, mask = fit(evaluate, rows, parameters, rows.fitted, begin, arguments.steps)
    for p, name, value in zip(parameters, names, values):
        edge = " at its bound" if value < p["low"] * 1.001 or value > p["high"] * 0.999 else ""
        print(f"  {name:<52}{value:>14.5g}  from {p['start']:.5g}{edge}")
    print_errors("fitted rows", predicted, rows, mask)
    worst = np.argsort(-np.abs(np.log(np.where(mask, predicted / rows.measured, 1))))[:15]
    for index in worst:
        print(f"  {rows.rows[index]['id']:<28}{100 * (predicted[index] / rows.measured[index] - 1):>8.1f} %")
    if arguments.write:
        note = f"fit of {os.path.basename(arguments.plan)} to published iteration times (experiments/fit)"
        write_presets(arguments.presets, names, values, note)


if __name__ == "__main__":
    main()
