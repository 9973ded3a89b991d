"""Blocks that another stream uses: reserved until the host has waited, or launched much else."""

import torch

MIB = 1 << 20
BLOCKS = 3


def use_blocks(side):
    for _ in range(BLOCKS):
        block = torch.empty(20 * MIB, device="cuda", dtype=torch.uint8)
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            block.add_(1)
        block.record_stream(side)
        del block


def report(when):
    print(when, torch.cuda.memory_reserved() // MIB)


if __name__ == "__main__":
    side = torch.cuda.Stream()
    counter = torch.zeros(1, device="cuda")  # a small segment of 2 MiB
    use_blocks(side)
    report("pending")
    torch.cuda.synchronize()
    use_blocks(side)
    report("waited")
    for _ in range(1100):
        counter.add_(1)
    use_blocks(side)
    report("launched")
    use_blocks(side)
    report("more")
