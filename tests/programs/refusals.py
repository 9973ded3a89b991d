"""What cannot work says so by name and raises; what watches (profilers) goes on without."""

import torch
from torch.profiler import ProfilerActivity, profile
from torch.sparse import to_sparse_semi_structured


def attempt(name, body):
    try:
        body()
        print(name, "worked")
    except RuntimeError as error:
        print(name, "raised", str(error).split("\n")[0])


def profiled():
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as recorded:
        torch.zeros(8, 8, device="cuda") @ torch.zeros(8, 8, device="cuda")
    assert any(event.name == "aten::mm" for event in recorded.events())


pruned = torch.tensor([0, 0, 1, 1], device="cuda").tile(128, 32).half()
attempt("pruned", lambda: to_sparse_semi_structured(pruned))
attempt("profiler", profiled)
