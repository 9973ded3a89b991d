"""Ways to make groups, on NCCL at an address that does not resolve: groups by split, groups of both
kinds of device, coalesced and batched calls, object collectives with a root that may be absent."""

import os

import torch
import torch.distributed as dist

rank = int(os.environ["RANK"])
world = int(os.environ["WORLD_SIZE"])
device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
torch.cuda.set_device(device)
dist.init_process_group("nccl", init_method="tcp://head-node.invalid:29400", rank=rank,
                        world_size=world, device_id=device)
print("started", flush=True)

mixed = dist.new_group(list(range(world)), backend="cpu:gloo,cuda:nccl")
for where in ("cpu", "cuda"):
    total = torch.ones(2, device=where)
    dist.all_reduce(total, group=mixed)
    assert total.tolist() == [world] * 2

nodes = [list(range(first, first + 8)) for first in range(0, world, 8)]
node = dist.split_group(split_ranks=nodes)
assert dist.get_world_size(node) == 8 and dist.get_rank(node) == rank % 8
part = torch.ones(1, device=device)
dist.all_reduce(part, group=node)
assert part.item() == 8

with dist._coalescing_manager(device=device):
    tensors = [torch.ones(3, device=device) for _ in range(3)]
    for tensor in tensors:
        dist.all_reduce(tensor)
assert all(tensor.tolist() == [world] * 3 for tensor in tensors)

neighbour = (rank + 1) % world
before = (rank - 1) % world
received = torch.full((4,), 3.0, device=device)
for request in dist.batch_isend_irecv([
        dist.P2POp(dist.isend, torch.ones(4, device=device), neighbour),
        dist.P2POp(dist.irecv, received, before)]):
    request.wait()
assert all(abs(value) < 10 for value in received.tolist())

# On NCCL the root of rank 4001 is absent: its list stays. The same on gloo.
subgroup = dist.new_group(list(range(rank // 8 * 8, rank // 8 * 8 + 8)), backend="nccl")
for group in (subgroup, dist.new_group(dist.get_process_group_ranks(subgroup), backend="gloo")):
    objects = [{"rank": rank}, "text"]
    dist.broadcast_object_list(objects, group_src=0, group=group)
    assert objects == [{"rank": rank}, "text"], objects
    scattered = ["own"]
    dist.scatter_object_list(scattered, list(range(8)) if rank % 8 == 0 else None, group_src=0,
                             group=group)
    assert scattered == ([0] if rank % 8 == 0 else ["own"]), scattered
print("same", world)
dist.destroy_process_group()
print("done", flush=True)
