"""Item 2, op by op: programs on the GPU under the shim, each op compared with the virtual device.

The virtual device records the program; then it runs on the GPU, and what the shim sees there (kernels
with names and grids, products with shapes, copies, events and waits in their order) is compared with
the record. The first difference of each program is in its result. With PRISM_TEST_DEVICE the device
is the one that tests bring.
"""
import json

import common
import virtual_truth

PROGRAMS = common.enough(virtual_truth.PROGRAMS, virtual_truth.PROGRAMS[-1:])
CASES = [f"prism-emulate --device cuda --target-gpus 1, {preset}, {variant}: every op"
         for preset, variant in PROGRAMS]


def run(args, cluster, preset, variant, folder):
    out = folder / "run"
    command = [common.prism(args, "prism-emulate"), "--target-gpus", "1", "--cluster", cluster,
               "--device", "cuda", "--sandbox-ranks", "0", "--quiet", "--out", out, "--",
               *virtual_truth.stage(preset, variant, folder / "stage.json")]
    virtual_truth.checked(command, 100, folder)
    summary = json.loads((out / "summary.json").read_text())
    return {"device": summary["device"], "ops": summary["graph"]["ops"],
            "warnings": summary["warnings"]}


def main():
    args = common.arguments(CASES)
    machine = common.machine()
    results = common.Results(args, machine)
    cluster = virtual_truth.cluster(machine)
    for preset, variant in PROGRAMS:
        results.add(f"{preset} {variant}", virtual_truth.in_folder, run, args, cluster, preset, variant)
    # A program that departs from the recording ends its run, so a finished run did all as recorded.
    results.finish([common.goal(f"{preset} {variant}: departures from the record",
                                0 if results.part(f"{preset} {variant}") else None, 0)
                    for preset, variant in PROGRAMS])


if __name__ == "__main__":
    main()
