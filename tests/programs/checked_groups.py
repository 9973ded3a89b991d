"""A file as the meeting place, and every collective checked by torch's wrapper."""

import os
import tempfile

os.environ["TORCH_DISTRIBUTED_DEBUG"] = "DETAIL"

import torch
import torch.distributed as dist

rank = int(os.environ["RANK"])
world = int(os.environ["WORLD_SIZE"])
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
folder = tempfile.TemporaryDirectory()
dist.init_process_group("nccl", init_method="file://" + folder.name + "/meeting", rank=rank,
                        world_size=world)
print("started", flush=True)
total = torch.ones(2, device="cuda")
dist.all_reduce(total)
assert total.tolist() == [world] * 2
node = dist.new_group(list(range(rank // 8 * 8, rank // 8 * 8 + 8)), backend="gloo")
part = torch.ones(2)
dist.all_reduce(part, group=node)
assert part.tolist() == [8.0] * 2
dist.monitored_barrier(node)
print("same", world)
dist.destroy_process_group()
print("done", flush=True)
