"""Item 4: device memory outside of the caching allocator, and the order of cudaMalloc's addresses."""
import ctypes
import json
import os
from queue import Empty
import sys

import common
from outside import Steps
import virtual_truth

CASES = ["context", "lazily loaded kernels", "cuBLAS workspace", "cuDNN workspace",
         "NCCL, one rank", "the same on the virtual device, by its formulas", "NCCL, all GPUs of the machine (where there are several)",
         "addresses of 64 cudaMalloc of 2 and 20 MiB, with every second one freed in between"]


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
    runtime = ctypes.CDLL(None)  # what the process calls: libtorch has loaded it for all

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


def outside(args, folder):
    before = common.device_used()
    growth = read(args, folder, [])
    return growth | {"before": growth["before"] - before}


def outside_virtually(args, machine, folder):
    """The same by the formulas: what the virtual device gives the program."""
    return read(args, folder, [common.prism(args, "prism-emulate"), "--target-gpus", "1", "--cluster",
                               virtual_truth.cluster(machine), "--sandbox-ranks", "none", "--quiet",
                               "--out", folder / "run", "--"])


def read(args, folder, launcher):
    dump = folder / "outside.json"
    virtual_truth.checked(
        [*launcher, sys.executable, args.root / "experiments/gpu/programs/outside.py", dump], 60, folder)
    return json.loads(dump.read_text())


def beside(results):
    """What each step took outside of the allocator: measured, by formulas."""
    real, virtual = (results.part(name) for name in ("outside_bytes", "outside_bytes by formulas"))
    if real and virtual:
        results.content["outside_bytes, measured and by formulas"] = {
            name: [real[name], virtual.get(name)] for name in real}


def main():
    args = common.arguments(CASES)
    if args.complete:
        results = common.Results(args, None)
        results.add("outside_bytes by formulas", virtual_truth.in_folder, outside_virtually, args,
                    results.content["machine"])
        beside(results)
        results.finish([])
    results = common.Results(args, common.machine())
    results.add("outside_bytes", virtual_truth.in_folder, outside, args)
    import torch
    results.add("total_bytes", lambda: torch.cuda.mem_get_info()[1])
    results.add("addresses", addresses)
    results.add("nccl_of_all_gpus", nccl_many)
    results.finish([])


if __name__ == "__main__":
    main()
