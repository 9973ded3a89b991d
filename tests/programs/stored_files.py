"""Training that reads a megabyte of a file in each step, saves its weights in every tenth, and writes
what costs nothing: to a pipe, /dev/null and the cache of a compiler."""
import os
import sys
import tempfile

import torch
from torch import nn

net = nn.Sequential(*[nn.Linear(512, 512) for _ in range(4)]).cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
folder = tempfile.mkdtemp()
tokens = os.path.join(folder, "tokens")
with open(tokens, "wb") as file:
    file.truncate(64 << 20)
data = open(tokens, "rb", buffering=0)
os.mkdir(os.path.join(folder, ".cache"))
ends = os.pipe()
how = sys.argv[1:]


def save(path):
    with open(path, "wb") as file:
        file.write(bytes(4_000_000))
        if "sync" in how:
            os.fsync(file.fileno())


for step in range(40):
    if "read" in how:
        data.read(1_000_000)
    if "again" in how:
        os.pread(data.fileno(), 1_000_000, 0)
    loss = net(torch.randn(32, 512, device="cuda")).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    os.write(ends[1], b"free")
    for path in (os.devnull, os.path.join(folder, ".cache/kernel")):
        with open(path, "wb") as file:
            file.write(bytes(100_000))
    if "save" in how and step % 10 == 9:
        weights = {name: value.cpu() for name, value in net.state_dict().items()}
        save(os.path.join(folder, "optimizer.pt"))
        torch.save(weights, os.path.join(folder, "weights.pt"))
