"""Item 4: device memory outside of the caching allocator, and the order of cudaMalloc's addresses."""
import ctypes
import os
from queue import Empty

import common

CASES = ["context", "lazily loaded kernels", "cuBLAS workspace", "cuDNN workspace",
         "NCCL, one rank", "NCCL, all GPUs of the machine (where there are several)",
         "addresses of 64 cudaMalloc of 2 and 20 MiB, with every second one freed in between"]


def used():
    import torch
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
    import torch
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
    import torch
    import torch.distributed as dist
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", "29531")
    dist.init_process_group("nccl", rank=0, world_size=1, device_id=torch.device("cuda", 0))
    steps.note("NCCL communicator of one rank")
    dist.all_reduce(torch.zeros(1 << 20, device="cuda"))
    steps.note("NCCL, its first all_reduce of one rank")
    dist.destroy_process_group()


def outside(measure):
    steps = Steps()
    measure(steps)
    return steps.growth


def nccl_rank(rank, world, queue):
    import torch
    import torch.distributed as dist
    torch.cuda.set_device(rank)
    torch.zeros(1, device="cuda")
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29532")
    steps = Steps()
    dist.init_process_group("nccl", rank=rank, world_size=world,
                            device_id=torch.device("cuda", rank))
    steps.note("communicator")
    x = torch.zeros(world << 20, device="cuda")
    dist.all_reduce(x)
    steps.note("first all_reduce")
    dist.all_gather_into_tensor(x, x[: 1 << 20].clone())
    steps.note("first all_gather")
    queue.put((rank, steps.growth))
    dist.barrier()
    dist.destroy_process_group()


def nccl_many():
    import torch
    import torch.multiprocessing as multiprocessing
    world = torch.cuda.device_count()
    if world < 2:
        return "one GPU"
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    ranks = [context.Process(target=nccl_rank, args=(rank, world, queue)) for rank in range(world)]
    for rank in ranks:
        rank.start()
    try:
        return dict(sorted(queue.get(timeout=20) for _ in ranks))
    except Empty:
        return "not within 20 s"
    finally:
        for rank in ranks:
            rank.terminate()
            rank.join()


def addresses():
    """Differences between addresses that follow each other, MiB."""
    import torch
    # By its soname: the one that libtorch has loaded.
    runtime = ctypes.CDLL(f"libcudart.so.{torch.version.cuda.split('.')[0]}")

    def allocate(mib):
        pointer = ctypes.c_void_p()
        code = runtime.cudaMalloc(ctypes.byref(pointer), ctypes.c_size_t(mib << 20))
        if code != 0:
            raise RuntimeError(f"cudaMalloc: error {code}")
        return pointer.value

    table = {}
    for mib in (2, 20):
        first = [allocate(mib) for _ in range(64)]
        for pointer in first[::2]:
            runtime.cudaFree(ctypes.c_void_p(pointer))
        again = [allocate(mib) for _ in range(16)]
        steps = [(b - a) / (1 << 20) for a, b in zip(first, first[1:])]
        table[f"{mib} MiB"] = {"fresh": steps, "ascending": sum(step > 0 for step in steps),
                               "reused": [first.index(p) if p in first else -1 for p in again]}
        for pointer in first[1::2] + again:
            runtime.cudaFree(ctypes.c_void_p(pointer))
    torch.cuda.synchronize()
    return table


def main():
    results = common.Results(common.arguments(CASES))
    import torch
    torch.zeros(1, device="cuda")
    results.add("outside_bytes", outside, libraries)
    results.add("outside_bytes of NCCL", outside, nccl)
    results.add("total_bytes", lambda: torch.cuda.mem_get_info()[1])
    results.add("addresses", addresses)
    results.add("nccl_of_all_gpus", nccl_many)
    results.finish()


if __name__ == "__main__":
    main()
