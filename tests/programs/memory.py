"""Memory as a program sees it: pinned loading, statistics, expandable segments, running out."""

import torch
from torch.utils.data import DataLoader, TensorDataset

MIB = 1 << 20


def load():
    data = TensorDataset(torch.arange(64.0).reshape(32, 2))
    total = 0
    for (batch,) in DataLoader(data, batch_size=8, num_workers=2, pin_memory=True):
        assert batch.is_pinned()
        total += batch.to("cuda", non_blocking=True).cpu().sum().item()
    print("loaded", total)


def statistics():
    torch.cuda.memory._record_memory_history()
    first = torch.empty(30 * MIB, device="cuda", dtype=torch.uint8)
    second = torch.empty(12 * MIB, device="cuda", dtype=torch.uint8)
    print("reserved", torch.cuda.memory_reserved() // MIB, torch.cuda.max_memory_allocated() // MIB)
    free, total = torch.cuda.mem_get_info()
    print("device", total // MIB, (total - free) // MIB)
    snapshot = torch.cuda.memory._snapshot()
    print("segments", [segment["is_expandable"] for segment in snapshot["segments"]])
    del first, second
    torch.cuda.empty_cache()
    print("released", torch.cuda.memory_reserved() // MIB)


def run_out():
    try:
        torch.empty(90 << 30, device="cuda", dtype=torch.uint8)
    except torch.cuda.OutOfMemoryError as error:
        print("oom", str(error).split(". GPU")[0])


if __name__ == "__main__":
    load()
    statistics()
    run_out()
