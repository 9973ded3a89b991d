"""Steps of a transformer on one GPU; writes after each step the wall and CPU seconds so far."""
import sys
import time

import torch
from torch import nn


def main():
    path, steps = sys.argv[1], int(sys.argv[2])
    layer = nn.TransformerEncoderLayer(1024, 16, 4096, batch_first=True, norm_first=True)
    model = nn.TransformerEncoder(layer, 24, enable_nested_tensor=False).cuda().bfloat16()
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    x = torch.randn(4, 1024, 1024, device="cuda", dtype=torch.bfloat16)
    with open(path, "a", buffering=1) as times:
        for _ in range(steps):
            model(x).float().pow(2).mean().backward()
            optimizer.step()
            optimizer.zero_grad()
            torch.cuda.synchronize()
            times.write(f"{time.perf_counter()} {time.process_time()}\n")


if __name__ == "__main__":
    main()
