"""Groups of every kind on NCCL, as one rank of a large job; prints what ranks must agree on."""

import os

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh

rank = int(os.environ["RANK"])
world = int(os.environ["WORLD_SIZE"])
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
print("started", flush=True)
assert (dist.get_rank(), dist.get_world_size()) == (rank, world)

total = torch.ones(4, device="cuda")
dist.all_reduce(total)
print("same all_reduce", total.tolist())

node = dist.new_group(list(range(rank // 8 * 8, rank // 8 * 8 + 8)))
largest = torch.full((2,), 3.0, device="cuda")
dist.all_reduce(largest, op=dist.ReduceOp.MAX, group=node)
print("same max over the node", largest.tolist())

mesh = init_device_mesh("cuda", (world // 128, 16, 8), mesh_dim_names=("dp", "pp", "tp"))
assert mesh.get_local_rank("tp") == rank % 8
gathered = torch.empty(8, device="cuda")
dist.all_gather_into_tensor(gathered, torch.ones(1, device="cuda"), group=mesh.get_group("tp"))
print("same all_gather", gathered.tolist())

# As SyncBatchNorm does: sums, and of how many elements, as floats in one collective.
moments = torch.cat([torch.randn(3, device="cuda"), torch.full((1,), 5.0, device="cuda")])
of_all = torch.empty(8, 4, device="cuda")
dist.all_gather_into_tensor(of_all.view(-1), moments, group=node)
counted = (of_all[:, 3] >= 1).nonzero().flatten().tolist()
assert counted == list(range(8)), counted
print("same members that have elements", counted)

objects = [None] * 8
dist.all_gather_object(objects, {"size": world}, group=node)
print("same all_gather_object", objects)

objects = [None] * 8
dist.gather_object({"rank": rank}, objects, dst=rank, group=node)
assert objects == [{"rank": rank}] * 8, "who is absent gives what the root has"

dist.barrier()
dist.destroy_process_group()
print("done", flush=True)
