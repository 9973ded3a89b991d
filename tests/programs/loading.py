"""Batches that take time to load: LOADS milliseconds each, of which a step computes next to nothing."""
import os
import sys
import time

import torch


class Slow(torch.utils.data.Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, index):
        time.sleep(float(os.environ["LOADS"]) / 1000)
        return torch.full((64,), float(index))


class Stream(torch.utils.data.IterableDataset):
    """Sixteen batches from each worker, so that workers end while the rank still asks for more."""

    def __iter__(self):
        for index in range(16):
            yield Slow()[index]


def main(kind, workers):
    torch.cuda.set_device(0)
    weight = torch.nn.Parameter(torch.ones(64, 64, device="cuda"))
    optimizer = torch.optim.SGD([weight], lr=0.1)
    options = {"num_workers": workers}
    if workers > 0:
        options.update(prefetch_factor=2, persistent_workers=kind == "persistent",
                       pin_memory=kind == "pinned")
    loader = torch.utils.data.DataLoader(Stream() if kind == "stream" else Slow(), batch_size=1,
                                         **options)
    times = []
    for _ in range(2 if kind == "persistent" else 1):
        for batch in loader:
            with torch.profiler.record_function("iteration"):
                (batch.cuda() @ weight).sum().backward()
                optimizer.step()
                optimizer.zero_grad()
            torch.cuda.synchronize()
            times.append(time.time())
            if len(times) == 24:
                break
    print("steps", len(times), flush=True)


main(sys.argv[1], int(sys.argv[2]))
