#!/usr/bin/env python3
"""How well any lawful model could do on measured plans: a bound that noise sets.

    python3 lawful_plans.py TABLE.csv [ERRORS.csv]

Two laws hold for every cost model whose stages take time by what they compute and send, whatever its
numbers are; plans are 1F1B of one model on one cluster, T their times, m their micro-batches:

* A pass over a larger micro-batch takes no longer a sample. Of two plans that differ in m1 < m2
  alone, T2 / T1 <= S2 / S1, where S = m (micro-batches + pp - 1) is what one stage passes, idle
  slots counted; what an iteration costs once only tightens this.
* Of three plans that differ in depth alone (replicas fill the rest), the middle one is not slower
  than both others: what depends on depth is a / pp + b pp with b >= 0 (idle slots are a share of
  1 - 1 / pp, gradients and optimizer fall with 1 / pp, what each stage adds to a pass grows with pp),
  which has no inner maximum.

Prints each pair and triple of measurements that breaks a law by more than repeats differ (3 %), then
the table of errors of the lawful model that fits best: one free number a row (least sum of absolute
log errors by linear programming), so no model with fewer can do better under these laws. The regret
is the least that a lawful choice can have: a plan that another one always beats cannot be chosen.
"""
import argparse
import csv
import math
from itertools import combinations

import numpy as np
from scipy.optimize import linprog
from scipy.stats import spearmanr

REPEATS = 0.03


class Plan:
    def __init__(self, row):
        self.id = row["id"].rsplit("-", 1)[1]
        self.model = (row["model"], row["num_gpus"], row["global_batch"])
        self.tp, self.pp, self.dp, self.micro = (
            int(row[key]) for key in ("tp", "pp", "dp", "micro_batch"))
        self.seconds = float(row["iter_time_s"] or row["iter_time_derived_s"])
        passes = int(row["global_batch"]) / (self.dp * self.micro)
        self.samples = self.micro * (passes + self.pp - 1)


def grouped(plans, key):
    """Plans of the same key, in the order of the table."""
    groups = {}
    for plan in plans:
        groups.setdefault(key(plan), []).append(plan)
    return groups.values()


def laws(plans):
    """Of the form log P[slow] <= log P[fast] + bound, with fast one plan or the slower of two."""
    found = []
    for alike in grouped(plans, lambda plan: (plan.model, plan.tp, plan.pp)):
        for a, b in combinations(alike, 2):
            if a.micro != b.micro:
                small, large = sorted((a, b), key=lambda plan: plan.micro)
                found.append((large, (small,), math.log(large.samples / small.samples)))
    for alike in grouped(plans, lambda plan: (plan.model, plan.tp, plan.micro)):
        for three in combinations(alike, 3):
            if len({plan.pp for plan in three}) == 3:
                first, middle, last = sorted(three, key=lambda plan: plan.pp)
                found.append((middle, (first, last), 0.0))
    return found


def excess(law):
    slow, fast, bound = law
    return slow.seconds / max(plan.seconds for plan in fast) / math.exp(bound) - 1


def best_lawful(plans, found):
    """Seconds of the lawful model with the least sum of absolute log errors.

    A law about the slower of two holds for the one that was measured slower: a lower bound of the
    error is not needed there, for few triples exist.
    """
    count = len(plans)
    place = {plan: index for index, plan in enumerate(plans)}
    truth = np.log([plan.seconds for plan in plans])
    rows, bounds = [], []
    for slow, fast, bound in found:
        row = np.zeros(2 * count)
        row[place[slow]] = 1
        row[place[max(fast, key=lambda plan: plan.seconds)]] -= 1
        rows.append(row)
        bounds.append(bound)
    for index in range(count):
        for sign in (1, -1):
            row = np.zeros(2 * count)
            row[index], row[count + index] = sign, -1
            rows.append(row)
            bounds.append(sign * truth[index])
    cost = np.concatenate([np.zeros(count), np.ones(count)])
    free = [(None, None)] * count + [(0, None)] * count
    solution = linprog(cost, A_ub=np.array(rows), b_ub=bounds, bounds=free)
    return np.exp(solution.x[:count])


def rank_of(plans, predicted):
    """Mean Spearman correlation over models."""
    ranks = []
    for model in {plan.model for plan in plans}:
        chosen = [index for index, plan in enumerate(plans) if plan.model == model]
        if len(chosen) > 2:
            ranks.append(spearmanr([plans[i].seconds for i in chosen],
                                   [predicted[i] for i in chosen])[0])
    return float(np.mean(ranks))


def least_regret(plans, found, model):
    """Of a choice that no other plan always beats: in one stage or none, larger passes win."""
    beaten = {fast[0] for slow, fast, bound in found if len(fast) == 1 and bound <= 1e-12}
    mine = [plan for plan in plans if plan.model == model]
    best = min(plan.seconds for plan in mine)
    return min(plan.seconds for plan in mine if plan not in beaten) / best - 1


def line(name, plans, predicted):
    errors = 100 * np.abs(np.asarray(predicted) / [plan.seconds for plan in plans] - 1)
    print(f"{name:<24}{errors.mean():>7.2f}{np.median(errors):>8.2f}{np.quantile(errors, 0.9):>7.1f}"
          f"{errors.max():>7.1f}{rank_of(plans, predicted):>8.3f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("table")
    parser.add_argument("errors", nargs="?", help="what prism bench accuracy --out has written")
    arguments = parser.parse_args()
    with open(arguments.table, newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    plans = [Plan(row) for row in rows]
    found = laws(plans)
    print(f"{len(found)} laws between {len(plans)} plans; broken by more than "
          f"{100 * REPEATS:.0f} %:")
    for law in sorted(found, key=lambda law: -excess(law)):
        if excess(law) > REPEATS:
            slow, fast, _ = law
            print(f"  {slow.id} ({slow.seconds:.2f} s) {100 * excess(law):.1f} % slower than "
                  f"{' and '.join(plan.id for plan in fast)} allow")
    print(f"{'error, %':<24}{'MAPE':>7}{'median':>8}{'p90':>7}{'worst':>7}{'rank':>8}")
    line("best lawful model", plans, best_lawful(plans, found))
    if arguments.errors:
        with open(arguments.errors, newline="", encoding="utf-8") as file:
            by_id = {row["id"]: float(row["predicted_s"]) for row in csv.DictReader(file)}
        line("prism", plans, [by_id[row["id"]] for row in rows])
    for model in sorted({plan.model for plan in plans}):
        print(f"  {model[0]}: regret of the best lawful choice at least "
              f"{100 * least_regret(plans, found, model):.1f} %")


if __name__ == "__main__":
    main()
