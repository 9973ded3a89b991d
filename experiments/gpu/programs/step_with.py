"""The training step of experiments/02_ddp with something beside it: step_with.py late SECONDS |
profiler | stop

late      on a GPU, not while it is recorded, the rank stands still behind each step
profiler  torch.profiler watches each step; what it calls holds is printed
stop      on a GPU the host stops in the middle of a step, as in a debugger, for longer than NCCL's
          time-out
"""
import datetime
import os
import pathlib
import runpy
import select
import sys

import torch
import torch.distributed as dist
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

import common

STEP = pathlib.Path(__file__).resolve().parents[3] / common.STEP[0]
ON_GPU = "PRISM_DRIVER" in os.environ  # the shim has it where it stands in front of a real driver
TIMEOUT_S = 10
init_process_group = dist.init_process_group


def stand_still(seconds):
    """Not time.sleep, which the shim records as time of the rank."""
    select.select([], [], [], seconds)


def late(seconds):
    def stand(*_):
        torch.cuda.synchronize()
        if ON_GPU:
            stand_still(seconds)
    register_optimizer_step_post_hook(stand)


def profiler():
    """Of every step, since a profiler waits for the device where it begins and where it ends, which is
    part of what the program does."""
    watch = None

    def look(*_):
        nonlocal watch
        if watch is not None:
            watch.stop()
            names = sorted({event.key for event in watch.key_averages() if "prism_hold" in event.key})
            print("profiler:", *names, flush=True)
        watch = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA])
        watch.start()
    register_optimizer_step_post_hook(look)


def stop():
    dist.init_process_group = lambda *given, **named: init_process_group(
        *given, **named, timeout=datetime.timedelta(seconds=TIMEOUT_S))
    steps = 0

    def stand(*_):
        nonlocal steps
        steps += 1
        if ON_GPU and steps == 2:  # gradients are on their way
            stand_still(1.5 * TIMEOUT_S)
            print("went on", flush=True)
    register_optimizer_step_pre_hook(stand)


def main():
    {"late": late, "profiler": profiler, "stop": stop}[sys.argv[1]](*map(float, sys.argv[2:]))
    sys.argv = [str(STEP), *common.STEP[1:]]
    runpy.run_path(str(STEP), run_name="__main__")


if __name__ == "__main__":
    main()
