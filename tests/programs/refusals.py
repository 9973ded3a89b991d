"""What cannot work says so by name and raises; what watches (profilers) goes on without."""

import torch
from torch.profiler import ProfilerActivity, profile


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


attempt("fft", lambda: torch.fft.fft(torch.zeros(8, device="cuda")))
attempt("inverse", lambda: torch.linalg.inv(torch.eye(4, device="cuda")))
attempt("lstm", lambda: torch.nn.LSTM(8, 8).cuda()(torch.zeros(2, 3, 8, device="cuda")))
attempt("profiler", profiled)
