"""A small DistributedDataParallel job that can go wrong in one of many ways at its third step."""
import collections
import datetime
import os
import subprocess
import sys
import threading
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


class Numbers(torch.utils.data.Dataset):
    def __len__(self):
        return 1024

    def __getitem__(self, index):
        return torch.full((64,), float(index))


def batches(how):
    if how != "workers":
        while True:
            yield torch.ones(8, 64, device="cuda")
    loader = torch.utils.data.DataLoader(
        Numbers(), batch_size=8, num_workers=2, pin_memory=True, persistent_workers=True)
    while True:
        for batch in loader:
            yield batch.cuda(non_blocking=True)


def misbehave(how):
    if how == "crash":
        raise RuntimeError("planted")
    if how == "hang":
        threading.Event().wait()
    if how == "daemon":
        subprocess.Popen(["sleep", "1000"], start_new_session=True)
    if how == "leaves":
        subprocess.Popen(["sleep", "1000"], start_new_session=True)
        threading.Event().wait()
    if how == "gone":
        torch.ones(7, device="cuda").mul_(3)
        os._exit(0)
    if how == "leave":
        os._exit(3)
    if how == "burst":
        child = os.fork()
        if child == 0:
            print("the child was here", flush=True)
            os._exit(0)
        os.waitpid(child, 0)
        for number in range(20000):
            print("line", number)


# Polls first and waits only for what is not complete: which waits there are depends on time.
def keep_few_in_flight(events, factor):
    for _ in range(8):
        while events and events[0].query():
            events.popleft()
        if len(events) > 2:
            events.popleft().synchronize()
        factor @ factor
        events.append(torch.cuda.Event())
        events[-1].record()


# Waits for the step before the last, and then queries whether it is complete.
def time_of_an_earlier_step(events, factor):
    while len(events) > 1:
        first, last = events.popleft()
        last.synchronize()
        assert first.query() and last.query()
        assert first.elapsed_time(last) >= 0
    first, last = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    first.record()
    for _ in range(8):
        factor @ factor
    last.record()
    events.append((first, last))


# Polls its own stream until it is done, or waits for it.
def wait_for_side_stream(stream, factor, asks):
    with torch.cuda.stream(stream):
        for _ in range(8):
            factor @ factor
    while asks and not stream.query():
        pass
    if not asks:
        stream.synchronize()


# Reads the times of all steps so far, including those of long ago.
def print_times_of_all_steps(events, factor):
    first, last = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    first.record()
    for _ in range(8):
        factor @ factor
    last.record()
    torch.cuda.synchronize()
    events.append((first, last))
    print("times", *(f"{begin.elapsed_time(end):.6f}" for begin, end in events), flush=True)


def main():
    how = sys.argv[1]
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    limit = datetime.timedelta(seconds=5) if how == "extra" else None
    dist.init_process_group("nccl", timeout=limit)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(64, 256), nn.Linear(256, 64)).cuda())
    optimizer = torch.optim.AdamW(model.parameters())
    data = batches(how)
    events = collections.deque()
    factor = torch.ones(4096, 4096, device="cuda")
    side = torch.cuda.Stream()
    for step in range(8):
        start = time.perf_counter()
        if step == 3:
            misbehave(how)
        if how == "bounded":
            keep_few_in_flight(events, factor)
        if how == "late":
            time_of_an_earlier_step(events, factor)
        if how == "once" and step == 4:
            sum(range(20_000_000))  # half a second, as a module that is loaded late
        if how in ("asks", "waits", "once"):
            wait_for_side_stream(side, factor, how == "asks")
        if how == "times":
            print_times_of_all_steps(events, factor)
        loss = model(next(data)).square().mean()
        if how == "edited" or (how == "turns" and step % 2):
            loss = loss * 2
        if how == "extra" and step >= 4:
            dist.all_reduce(factor)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if how != "late":
            torch.cuda.synchronize()
        print(f"step {step} took {time.perf_counter() - start:.9f} s", flush=True)
        if how == "sleep":
            time.sleep(0.5)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
