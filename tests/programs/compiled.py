"""torch.compile: forward, backward and optimizer of a small model through Triton."""

import torch


def main():
    torch._inductor.config.compile_threads = 1
    model = torch.nn.Sequential(
        torch.nn.Linear(64, 256), torch.nn.GELU(), torch.nn.LayerNorm(256), torch.nn.Linear(256, 64)
    ).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    compiled = torch.compile(model)
    for step in range(3):
        with torch.autograd.profiler.record_function("iteration"):
            compiled(torch.zeros(32, 64, device="cuda")).pow(2).mean().backward()
            optimizer.step()
            optimizer.zero_grad()
    print("compiled", step + 1)


main()
