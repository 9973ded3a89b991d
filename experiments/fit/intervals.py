#!/usr/bin/env python3
"""Sets how wide intervals are: spread.below, spread.above and spread.assumptions of profiles.

    python3 intervals.py --groundtruth FOLDER [--pages FOLDER] [--presets FOLDER] [--write]

Reads the errors.csv of every page. An interval runs from predicted / (1 + hypot(below, f a)) to
stalled (1 + hypot(above, f a)), where a is what the row's assumptions may be off by
(launch/plan/assumptions.h) and stalled is predicted unless transfers may stall
(replayer/cost/congestion.h). The rule: of all pairs (below, above) the one with the least mean width
that holds SHARE of those rows of a class that assume little (a <= LITTLE), or of all where they are
few; then the least f that holds SHARE of all rows of the class. A class is a cluster (networks/)
with many rows, since sites differ in how even their runs are; rows of other clusters are classed by
framework, those of frameworks with few rows together. Two tables guide nobody else: a quarter of
nanotron's rows stall, and 168 sums reproduce the 960 rows of vtrain_single to 0.03 %. Nothing here
moves a prediction.

It prints, for each source, the share inside and the mean half width when the models of that source
are left out one by one: the spread then comes from the other models.
"""
import argparse
import csv
import math
import os
import re

import numpy as np

from fit import with_parameter

SHARE = 0.89
MANY_OF_CLUSTER, MANY_OF_FRAMEWORK, MANY_THAT_ASSUME_LITTLE = 28, 20, 28
LITTLE = 0.1
FACTORS = np.arange(0.4, 3.01, 0.1)
USUAL = "spread/published"
GRID = np.concatenate([np.arange(0.03, 0.2, 0.005), np.arange(0.2, 0.6, 0.02)])  # repeats differ by 3 %
GUIDE_NOBODY_ELSE = ("nanotron_ultrascale", "vtrain_single")


def read(path):
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


class Residuals:
    """Predicted rows of all pages."""

    def __init__(self, pages, groundtruth):
        rows = []
        for source in sorted(os.listdir(pages)):
            path = os.path.join(pages, source, "errors.csv")
            if not os.path.exists(path):
                continue
            models = {row["id"]: row["model"] for row in
                      read(os.path.join(groundtruth, source + ".csv"))}
            for row in read(path):
                if row["error_pct"] and not row["reason_skipped"]:
                    rows.append((source, models[row["id"]], row))
        number = lambda key: np.array([float(row[key]) for _, _, row in rows])
        self.source = np.array([source for source, _, _ in rows])
        self.model = np.array([source + model for source, model, _ in rows])
        self.framework = np.array(["frameworks/" + row["framework"] for _, _, row in rows])
        self.network = np.array([row["network"] for _, _, row in rows])
        self.predicted, self.measured = number("predicted_s"), number("measured_s")
        self.assumed = number("assumption_spread")
        self.profile = self._classes()
        self.stalled = number("stalled_s")

    def _classes(self):
        """By row: the profile whose pair decides its interval."""
        def rare(names, many):
            found, counts = np.unique(names, return_counts=True)
            return np.isin(names, found[counts < many])

        alone = ~rare(self.network, MANY_OF_CLUSTER)
        rest = np.where(alone, "none", self.framework)
        classes = np.where(rare(rest, MANY_OF_FRAMEWORK), USUAL, self.framework)
        return np.where(alone, self.network, classes)

    def inside(self, spread, index):
        """By row: whether it lies inside, and the half width over the prediction."""
        below, above, factor = spread
        assumed = factor * self.assumed[index]
        low = self.predicted[index] / (1 + np.hypot(below, assumed))
        high = self.stalled[index] * (1 + np.hypot(above, assumed))
        measured = self.measured[index]
        return (low <= measured) & (measured <= high), (high - low) / 2 / self.predicted[index]


def pair_of(rows, index):
    share = min(1.0, SHARE * (1 + 1 / len(index)))
    best = (math.inf, GRID[-1], GRID[-1])
    for below in GRID:
        for above in GRID:
            inside, width = rows.inside((below, above, 1), index)
            if inside.mean() >= share:
                best = min(best, (width.mean(), below, above))
                break
    return best[1:]


def spread_of(rows, chosen):
    """below, above and the factor of assumptions for the chosen rows."""
    index = np.flatnonzero(chosen)
    little = index[rows.assumed[index] <= LITTLE]
    pair = pair_of(rows, little if len(little) >= MANY_THAT_ASSUME_LITTLE else index)
    share = min(1.0, SHARE * (1 + 1 / len(index)))
    for factor in FACTORS:
        if rows.inside((*pair, factor), index)[0].mean() >= share:
            break
    return (*pair, 1.0 if rows.assumed[index].max() == 0 else factor)


def write(folder, profile, spread):
    """Puts the numbers into the profile's file, in place of what it has; None: takes them away."""
    path = os.path.join(folder, profile + ".toml")
    with open(path, encoding="utf-8") as file:
        text = re.sub(r"^spread\.(above|below|assumptions) = .*\n", "", file.read(),
                      flags=re.MULTILINE)
    if spread is not None:
        below, above, factor = spread
        for key, value in (("above", above), ("assumptions", factor), ("below", below)):
            text = with_parameter(text, (
                f'spread.{key} = {{ value = {value:.3g}, unit = "ratio", source = "residuals of '
                f'published rows (experiments/fit/intervals.py)", mark = "measured" }}'))
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--groundtruth", required=True)
    parser.add_argument("--pages", default="experiments/accuracy")
    parser.add_argument("--presets", default="launch/presets")
    parser.add_argument("--write", action="store_true", help="put the pairs into the presets")
    arguments = parser.parse_args()
    rows = Residuals(arguments.pages, arguments.groundtruth)
    everything = np.ones(len(rows.source), dtype=bool)
    usual = ~np.isin(rows.source, GUIDE_NOBODY_ELSE)
    spreads = {USUAL: spread_of(rows, usual)}
    inside, width = np.zeros(len(everything), dtype=bool), np.zeros(len(everything))
    for profile in sorted(set(rows.profile)):
        chosen = rows.profile == profile
        guides = usual if profile == USUAL else chosen
        spreads[profile] = spread_of(rows, guides)
        for model in sorted(set(rows.model[chosen])):
            index = np.flatnonzero(chosen & (rows.model == model))
            inside[index], width[index] = rows.inside(
                spread_of(rows, guides & (rows.model != model)), index)
    for profile, (below, above, factor) in spreads.items():
        print(f"{profile:<28} below {below:.3f}  above {above:.3f}  assumptions x {factor:.1f}")
    print(f"{'each model left out':<28}{'rows':>6}{'inside, %':>11}{'half width, %':>15}")
    for source in list(dict.fromkeys(rows.source)) + ["all but these two", "all"]:
        chosen = everything if source == "all" else (
            usual if source == "all but these two" else rows.source == source)
        print(f"  {source:<26}{chosen.sum():>6}{100 * inside[chosen].mean():>11.1f}"
              f"{100 * width[chosen].mean():>15.1f}")
    if arguments.write:
        for folder in ("frameworks", "networks"):
            for name in sorted(os.listdir(os.path.join(arguments.presets, folder))):
                write(arguments.presets, folder + "/" + name.removesuffix(".toml"), None)
        for profile, spread in spreads.items():
            write(arguments.presets, profile, spread)


if __name__ == "__main__":
    main()
