"""Faults as people report them, each small: the first argument says which. "none" has none.

checkpoint: after training rank 0 alone saves once more, in a function that ends in a barrier. one: a
group of one rank, without training. own_group: every rank makes only its own group. order: one rank
comes to two groups in the other order, and waits for each. twice: rank 0 sums twice as many
elements, without training. computed: likewise one whose number is computed. uneven: odd ranks have
one batch less. save: rank 0 saves for longer than the group's time-out. late: rank 0 starts later
than the others' store waits. cpu: rank 1 comes to a sum of a CPU group later than that allows.
alone: rank 0 alone calls a barrier of a CPU group. roots: rank 1 expects objects of another rank.
sizes: rank 1 sums twice as many elements in a CPU group. messages: ranks of a CPU group send each other
arrays and objects, and rank 0 one more than "received" has rank 1 receive, or "anybody" receives from
whoever sends.
keys: ranks read what others have set, and meet by a counter of the store, which "counter" has rank 3
leave out. behind: rank 0 sets a key only behind a sum with those who wait for it. set_late: it sets it
later than they wait. polled: others ask again and again whether it is there, "never" for another key.
optional: nobody sets a key, for which each rank waits a while, and another thread of it for ever.
thread: another thread sums in a CPU group, in "fewer" once less on rank 2, which in "crossed" waits
for it later. overlap: a gathering into a
buffer that overlaps. teardown: rank 3 fails at the very end.
dropped: nobody waits for a sum that was started asynchronously. gpu: all ranks use GPU 0.
"""

import datetime
import os
import sys
import threading
import time

import torch
import torch.distributed as dist

fault = sys.argv[1]
rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
device = torch.device("cuda", 0 if fault == "gpu" else int(os.environ["LOCAL_RANK"]))
if fault == "late" and rank == 0:
    time.sleep(660)
torch.cuda.set_device(device)
dist.init_process_group("nccl", device_id=device if fault == "one" else None,
                        timeout=datetime.timedelta(minutes=10))


def save():
    if fault == "save" and rank == 0:
        time.sleep(660)
    dist.barrier()


def total(size, group=None):
    value = torch.ones(size, device=device)
    dist.all_reduce(value, group=group)
    return value.tolist()[0]


if fault == "one":
    dist.new_group(ranks=[0])
    dist.barrier()
    sys.exit()
if fault in ("twice", "computed", "gpu"):
    total(64 if rank == 0 and fault == "twice" or rank % 83 == 69 else 32)
    sys.exit()
if fault == "late":
    total(8)
    sys.exit()
if fault in ("cpu", "alone", "roots"):
    of_hosts = dist.new_group(backend="gloo", timeout=datetime.timedelta(seconds=60))
    dist.all_gather_object([None] * world, "x" * rank, group=of_hosts)
    if fault == "alone" and rank == 0:
        dist.barrier(group=of_hosts)
    if fault == "cpu" and rank == 1:
        time.sleep(80)
    if fault == "roots":
        dist.broadcast_object_list([rank], src=2 if rank == 1 else 0, group=of_hosts)
    dist.all_reduce(torch.ones(4), group=of_hosts)
    total(8)
    sys.exit()
if fault in ("sizes", "messages", "received", "anybody"):
    of_hosts = dist.new_group(backend="gloo")
    dist.all_reduce(torch.ones(64 if fault == "sizes" and rank == 1 else 32), group=of_hosts)
    peer = rank ^ 1
    for each in range(2):
        if rank % 2 == 0:
            dist.send(torch.ones(8), peer, group=of_hosts)
            dist.recv(torch.ones(16), peer, group=of_hosts)
        else:
            dist.recv(torch.ones(8), peer, group=of_hosts)
            dist.send(torch.ones(16), peer, group=of_hosts)
    if rank % 2 == 0:
        dist.send_object_list(["x" * 100 * (rank + 1)], peer, group=of_hosts)
    else:
        dist.recv_object_list([None], peer, group=of_hosts)
    if fault in ("received", "anybody") and rank == 0:
        dist.send(torch.ones(8), 1, group=of_hosts)
    if fault == "anybody" and rank == 1:
        dist.recv(torch.ones(8), group=of_hosts)
    dist.barrier(group=of_hosts)
    sys.exit()
if fault in ("behind", "set_late"):
    store = dist.distributed_c10d._get_default_store()
    if rank == 0:
        if fault == "behind":
            total(8)
        time.sleep(400)
        store.set("go", "1")
    else:
        store.wait(["go"], datetime.timedelta(seconds=500 if fault == "behind" else 300))
    total(8)
    sys.exit()
if fault in ("polled", "never"):
    store = dist.distributed_c10d._get_default_store()
    if rank == 0:
        store.set("go" if fault == "polled" else "gone", "1")
    while not store.check(["go"]):
        time.sleep(1)
    total(8)
    sys.exit()
if fault == "optional":
    store = dist.distributed_c10d._get_default_store()
    watch = store.clone() if hasattr(store, "clone") else store
    threading.Thread(target=lambda: watch.wait(["abort"], datetime.timedelta(hours=9)),
                     daemon=True).start()
    try:
        store.wait(["resumed"], datetime.timedelta(seconds=20))
    except dist.DistStoreError:
        total(8)
    os._exit(0)
if fault in ("thread", "fewer", "crossed"):
    of_hosts = dist.new_group(backend="gloo")

    def sum_often():
        for each in range(2 if fault == "fewer" and rank == 2 else 3):
            dist.all_reduce(torch.ones(12), group=of_hosts)

    thread = threading.Thread(target=sum_often)
    if fault == "crossed" and rank == 2:
        total(16)
    thread.start()
    if fault == "crossed":
        thread.join()
    if fault != "crossed" or rank != 2:
        total(16)
    thread.join()
    sys.exit()
if fault in ("keys", "counter"):
    store = dist.distributed_c10d._get_default_store()
    if rank == 0:
        store.set("run", "7")
    elif store.get("run") != b"7":
        sys.exit("another run")
    if fault == "keys" or rank != 3:
        if store.add("arrived", 1) == world:
            store.set("all here", "1")
        store.wait(["all here"])
    total(8)
    sys.exit()
if fault in ("overlap", "teardown"):
    total(8)
    if fault == "overlap":
        parts = torch.ones(8 * world + 8, device=device)
        dist.all_gather_into_tensor(parts[:-8], parts[8 * rank:8 * rank + 8])  # as NCCL allows
        dist.all_gather_into_tensor(parts[:-8], parts[8 * rank + 4:8 * rank + 12])
    dist.destroy_process_group()
    sys.exit("cannot write the log" if fault == "teardown" and rank == 3 else 0)
low = rank // 2 * 2
half = None
for first in (low,) if fault == "own_group" else range(0, world, 2):
    group = dist.new_group([first, first + 1])
    half = group if first == low else half

model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(64, 64, device=device))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(6 - (rank % 2 if fault == "uneven" else 0)):
    model(torch.randn(8, 64, device=device)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    if fault == "order" and rank == 3:
        total(4, half)
        total(8)
    else:
        total(8)
        total(4, half)
    if step % 3 == 2:
        save()
if fault == "dropped":
    dist.all_reduce(torch.ones(24, device=device), async_op=True)
    sys.exit()
if fault == "checkpoint" and rank == 0:
    save()
dist.barrier()
dist.destroy_process_group()
