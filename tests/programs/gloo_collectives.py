"""Every collective of the gloo backend, as one rank of a large job; prints what ranks must agree on.

Ranks of one node of eight run it, rank 1 of the node among them or not. An absent rank stands
behind the lowest present one.
"""

import os
from datetime import timedelta

import torch
import torch.distributed as dist

rank = int(os.environ["RANK"])
world = int(os.environ["WORLD_SIZE"])
dist.init_process_group("gloo")
print("started", flush=True)
backend = dist.distributed_c10d._get_default_group()._get_backend(torch.device("cpu"))
assert isinstance(backend, dist.ProcessGroupGloo)

total = torch.ones(3)
dist.all_reduce(total)
assert total.tolist() == [world] * 3

everybody = [None] * world
dist.all_gather_object(everybody, ("rank", rank))
assert everybody[rank] == ("rank", rank)
print("same all_gather_object", len(everybody), everybody[0])

# Of all ranks, as torch.distributed.rpc makes one that c10d does not know.
store = dist.distributed_c10d._get_default_store()
own = dist.ProcessGroupGloo(dist.PrefixStore("own", store), rank, world, timedelta(seconds=60))
everybody = [None] * world
dist.all_gather_object(everybody, ("own", rank), own)
assert everybody[rank] == ("own", rank)
print("same all_gather_object of its own", len(everybody))

first = rank // 8 * 8
node = dist.new_group(list(range(first, first + 8)), backend="gloo")
local = dist.get_rank(node)

for op in (dist.ReduceOp.SUM, dist.ReduceOp.PRODUCT, dist.ReduceOp.MIN, dist.ReduceOp.MAX,
           dist.ReduceOp.BAND, dist.ReduceOp.BOR, dist.ReduceOp.BXOR):
    bits = torch.tensor([local + 1], dtype=torch.int64)
    dist.all_reduce(bits, op=op, group=node)
    print("same", op, bits.item())

half = torch.full((2,), 1.5, dtype=torch.bfloat16)
dist.all_reduce(half, group=node)
assert half.tolist() == [12.0, 12.0]

columns = torch.arange(6.0).reshape(2, 3).t()
assert not columns.is_contiguous()
dist.all_reduce(columns, group=node)
assert columns.tolist() == [[0, 24], [8, 32], [16, 40]]

parts = [torch.empty(2) for _ in range(8)]
dist.all_gather(parts, torch.full((2,), float(local)), group=node)
assert parts[local].tolist() == [local] * 2
print("same all_gather", [part[0].item() for part in parts])

flat = torch.empty(8, dtype=torch.int32)
dist.all_gather_into_tensor(flat, torch.tensor([local], dtype=torch.int32), group=node)
print("same all_gather_into_tensor", flat.tolist())

part = torch.empty(1)
dist.reduce_scatter_tensor(part, torch.arange(8.0), group=node)
assert part.item() == 8 * local, part
dist.reduce_scatter(part, [torch.full((1,), float(i)) for i in range(8)], group=node)
assert part.item() == 8 * local, part

# Rank 1 of the node as root; if it is absent, the others keep what they have.
own = torch.full((2,), 7.0 if local == 1 else 0.0)
dist.broadcast(own, group_src=1, group=node)
print("same broadcast", own.tolist())
result = torch.ones(2)
dist.reduce(result, group_dst=1, group=node)
assert result.tolist() == ([8.0] * 2 if local == 1 else [1.0] * 2)

objects = [{"from": 1}, 1] if local == 1 else [None, None]
dist.broadcast_object_list(objects, group_src=1, group=node)
print("same broadcast_object_list", objects)
scattered = ["own"]
dist.scatter_object_list(scattered, list(range(100, 108)) if local == 1 else None, group_src=1,
                         group=node)
assert scattered in ([100 + local], ["own"])
gathered = [None] * 8 if local == 1 else None
dist.gather_object(("object", local), gathered, group_dst=1, group=node)
assert local != 1 or gathered[1] == ("object", 1)

exchanged = torch.empty(8)
dist.all_to_all_single(exchanged, torch.arange(8.0) + 10 * local, group=node)
assert exchanged[local].item() == 11 * local
# Rank r gets r + 1 rows of each.
uneven = torch.empty(8 * (local + 1))
dist.all_to_all_single(uneven, torch.arange(36.0), [local + 1] * 8, list(range(1, 9)), group=node)
begin = local * (local + 1)
assert uneven[begin:begin + local + 1].tolist() == [
    float(local * (local + 1) // 2 + i) for i in range(local + 1)]

# A ring of every second rank of the node.
outgoing = torch.full((300_000,), float(local))
incoming = torch.empty(300_000)
transfers = [dist.P2POp(dist.isend, outgoing, group=node, group_peer=(local + 2) % 8),
             dist.P2POp(dist.irecv, incoming, group=node, group_peer=(local + 6) % 8)]
for request in dist.batch_isend_irecv(transfers):
    request.wait()
assert incoming[-1].item() in (0.0, float((local + 6) % 8))

handles = [dist.all_reduce(torch.ones(1), group=node, async_op=True) for _ in range(4)]
for handle in reversed(handles):
    handle.wait()
assert handles[0].get_future().wait()[0].item() == 8

dist.barrier(group=node)
dist.monitored_barrier(node, timeout=timedelta(seconds=30))
dist.destroy_process_group()
print("done", flush=True)
