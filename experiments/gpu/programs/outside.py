"""Uses library after library and writes by how much the device memory outside of the caching allocator
grows with each. The same file runs on the real GPU and on the virtual one: outside.py FILE.
"""
import json
import os
import sys

import torch


def used():
    torch.cuda.synchronize()
    free, total = torch.cuda.mem_get_info()
    return total - free - torch.cuda.memory_reserved()


class Steps:
    """Growth of what is used outside of the allocator, by what was done."""

    def __init__(self):
        self.last = used()
        self.growth = {"before": self.last}

    def note(self, name):
        now = used()
        self.growth[name] = now - self.last
        self.last = now


def libraries(steps):
    x = torch.randn(1024, 1024, device="cuda", dtype=torch.bfloat16)
    torch.softmax(x.float(), dim=-1).sum()
    torch.nn.functional.layer_norm(x, [1024])
    steps.note("first kernels of libtorch")
    x @ x
    steps.note("first matrix product (cuBLAS, its workspace is the allocator's)")
    torch.nn.functional.linear(x, x, torch.zeros(1024, device="cuda", dtype=torch.bfloat16))
    steps.note("first product with bias (cuBLASLt)")
    q = torch.randn(1, 8, 1024, 128, device="cuda", dtype=torch.bfloat16)
    from torch.nn.attention import SDPBackend, sdpa_kernel
    for backend in (SDPBackend.FLASH_ATTENTION, SDPBackend.CUDNN_ATTENTION):
        try:
            with sdpa_kernel(backend):
                torch.nn.functional.scaled_dot_product_attention(q, q, q)
            steps.note(f"first attention by {backend.name}")
        except RuntimeError as error:
            steps.growth[f"attention by {backend.name}"] = str(error)[:120]


def nccl(steps):
    import torch.distributed as dist
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", "0")
    dist.init_process_group("nccl", rank=0, world_size=1, device_id=torch.device("cuda", 0))
    steps.note("NCCL communicator of one rank")
    dist.all_reduce(torch.zeros(1 << 20, device="cuda"))
    steps.note("NCCL, its first all_reduce of one rank")
    dist.destroy_process_group()


def main():
    torch.zeros(1, device="cuda")
    steps = Steps()
    libraries(steps)
    nccl(steps)
    with open(sys.argv[1], "w", encoding="utf-8") as file:
        json.dump(steps.growth, file)
    for _ in range(4):  # what is recorded has to have iterations
        with torch.profiler.record_function("iteration"):
            torch.zeros(1, device="cuda")


if __name__ == "__main__":
    main()
