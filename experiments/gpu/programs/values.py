"""All ranks of a job: every collective, each result compared with a reference made on the host. Prints
how many there were and which are wrong, for hybrid.py to read: while a rank is recorded its peers are
absent, so wrong ones are no reason to end with an error there. Needs no kernel: inputs are copied to the device.
"""
import os

import torch
import torch.distributed as dist

import common

TYPES = common.enough([torch.float32, torch.bfloat16, torch.float16, torch.float64, torch.int32,
                       torch.int64, torch.uint8, torch.int8], [torch.bfloat16, torch.uint8])
SIZES = [8, 1000, 1 << 18]
STEPS = 3


def contribution(rank, count, dtype):
    generator = torch.Generator().manual_seed(1000 + rank)
    values = torch.randint(-3, 4, (count,), generator=generator)
    return (values % 4 if dtype == torch.uint8 else values).to(dtype)


def reduced(parts, op):
    """In ascending order of rank in a wide type, rounded once."""
    dtype = parts[0].dtype
    wide = [part.to(torch.float64 if dtype.is_floating_point else torch.int64) for part in parts]
    total = wide[0]
    for part in wide[1:]:
        total = (total * part if op == dist.ReduceOp.PRODUCT
                 else torch.minimum(total, part) if op == dist.ReduceOp.MIN
                 else torch.maximum(total, part) if op == dist.ReduceOp.MAX else total + part)
    if op == dist.ReduceOp.AVG:
        total = total / len(parts)
    return total.to(dtype)


def check(wrong, name, got, expected):
    if not torch.equal(got.cpu(), expected):
        wrong.append(name)


def reductions(rank, world, dtype, count, wrong):
    parts = [contribution(r, count, dtype) for r in range(world)]
    own = parts[rank].cuda()
    ops = [dist.ReduceOp.SUM, dist.ReduceOp.PRODUCT, dist.ReduceOp.MIN, dist.ReduceOp.MAX]
    for op in ops + ([dist.ReduceOp.AVG] if dtype.is_floating_point else []):
        result = own.clone()
        result.copy_(own)
        dist.all_reduce(result, op)
        check(wrong, f"all_reduce {dtype} {op} {count}", result, reduced(parts, op))
    shard = torch.empty(count // world, dtype=dtype, device="cuda")
    dist.reduce_scatter_tensor(shard, own)
    expected = reduced(parts, dist.ReduceOp.SUM)
    check(wrong, f"reduce_scatter {dtype} {count}", shard, expected.chunk(world)[rank])


def moves(rank, world, dtype, count, wrong):
    parts = [contribution(r, count, dtype) for r in range(world)]
    own = parts[rank].cuda()
    gathered = torch.empty(world * count, dtype=dtype, device="cuda")
    dist.all_gather_into_tensor(gathered, own)
    check(wrong, f"all_gather {dtype} {count}", gathered, torch.cat(parts))
    turned = torch.empty_like(own)
    dist.all_to_all_single(turned, own)
    blocks = [part.chunk(world)[rank] for part in parts]
    check(wrong, f"all_to_all {dtype} {count}", turned, torch.cat(blocks))
    root = torch.empty_like(own) if rank != 1 else own.clone()
    if rank == 1:
        root.copy_(own)
    dist.broadcast(root, 1)
    check(wrong, f"broadcast {dtype} {count}", root, parts[1])
    got = torch.empty_like(own)
    for work in dist.batch_isend_irecv([dist.P2POp(dist.isend, own, (rank + 1) % world),
                                        dist.P2POp(dist.irecv, got, (rank - 1) % world)]):
        work.wait()
    check(wrong, f"send and recv {dtype} {count}", got, parts[rank - 1])


def main():
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    rank, world = dist.get_rank(), dist.get_world_size()
    wrong, checks = [], 0
    for _ in range(STEPS):
        with torch.profiler.record_function("iteration"):
            for dtype in TYPES:
                for count in SIZES:
                    reductions(rank, world, dtype, count, wrong)
                    moves(rank, world, dtype, count, wrong)
                    checks += 9 + dtype.is_floating_point
    print(f"{checks} results, {len(wrong)} wrong {wrong[:8]}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
