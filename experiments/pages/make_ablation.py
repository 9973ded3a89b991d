#!/usr/bin/env python3
"""Writes experiments/ablation/: which effect removes how much error.

    python3 make_ablation.py --groundtruth FOLDER [--prism PROGRAM]

For each group of tables `prism bench accuracy TABLE.csv... --ablation --out GROUP.csv`; README.md
keeps what stands above the line "## Tables".
"""
import argparse
import os
import subprocess

HERE = os.path.dirname(os.path.abspath(__file__))
FOLDER = os.path.join(HERE, "..", "ablation")
GROUPS = {
    "a100": ("vtrain_multi megatron_sc21_table1 megatron_sc21_table2 korthikanti_table5 "
             "megascale_table2 bloom_a100_topology").split(),
    "h100_and_fsdp": "dgxc_benchmarking mlperf_training mpt_llmfoundry torchtitan".split(),
    "nanotron_ultrascale": ["nanotron_ultrascale"],
    "korthikanti_table5": ["korthikanti_table5"],
}
# For a long table, only the effects that matter there.
EFFECTS = {"nanotron_ultrascale": ("host-issue network-messages p2p-latency memory-bound-kernels nvlink "
                                   "hierarchical-rings data-parallelism data-parallel-overlap").split()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("groups", nargs="*")
    parser.add_argument("--groundtruth", required=True)
    parser.add_argument("--prism", default="build/bin/prism")
    arguments = parser.parse_args()
    for group in arguments.groups or GROUPS:
        paths = [os.path.join(arguments.groundtruth, table + ".csv") for table in GROUPS[group]]
        out = os.path.join(FOLDER, group + ".csv")
        run = subprocess.run([arguments.prism, "bench", "accuracy", *paths, "--ablation", "--out", out,
                              *(word for effect in EFFECTS.get(group, []) for word in ("--without", effect))],
                             capture_output=True, text=True, check=True)
        with open(os.path.join(FOLDER, group + ".txt"), "w", encoding="utf-8") as file:
            file.write(run.stdout)
        print(group, flush=True)
    readme = os.path.join(FOLDER, "README.md")
    with open(readme, encoding="utf-8") as file:
        text = file.read().split("## Tables")[0] + "## Tables\n"
    for group, tables in GROUPS.items():
        with open(os.path.join(FOLDER, group + ".txt"), encoding="utf-8") as file:
            text += f"\n{', '.join(tables)} (by source: `{group}.csv`):\n\n```\n{file.read()}```\n"
    with open(readme, "w", encoding="utf-8") as file:
        file.write(text)


if __name__ == "__main__":
    main()
