"""Compiles the Triton kernels that later programs time, while something runs that takes no time.

On the virtual device with the profile of the GPU at hand, so that the GPU itself is left alone; what is
compiled lies in TRITON_CACHE_DIR, where the later programs find it.
"""
import math
import os
import pathlib
import runpy
import sys
import tempfile
from unittest import mock

import common
import kernel_times
import virtual_truth

COMPILED = virtual_truth.PROGRAMS[-1]


def compile_all(dump):
    """Under prism-emulate. The stage's steps come last: behind them the recording ends."""
    with (mock.patch.object(common, "device_seconds", lambda call, *_: call() is None),
          mock.patch.object(kernel_times, "EQUAL", math.inf)):  # nothing is computed here
        for part in kernel_times.COMPILED:
            kernel_times.compiled_part(part)
    stage = virtual_truth.stage(*COMPILED, dump)
    sys.argv = stage[1:]
    runpy.run_path(stage[1], run_name="__main__")


def main():
    if sys.argv[1:2] == ["--compile"]:
        compile_all(sys.argv[2])
        return
    args = common.arguments(["on the virtual device: Triton kernels of " + ", ".join(
        [*kernel_times.COMPILED, " ".join(COMPILED)])])
    name = virtual_truth.cluster(common.machine())
    with tempfile.TemporaryDirectory() as folder:
        virtual_truth.checked(
            [common.prism(args, "prism-emulate"), "--target-gpus", "1", "--cluster", name,
             "--sandbox-ranks", "none", "--quiet", "--out", pathlib.Path(folder) / "run", "--",
             sys.executable, __file__, "--compile", os.path.join(folder, "stage.json")], 60, folder)
    kernels = sum(1 for _ in pathlib.Path(os.environ["TRITON_CACHE_DIR"]).rglob("*.cubin"))
    print(f"  {kernels} Triton kernels compiled ahead")


if __name__ == "__main__":
    main()
