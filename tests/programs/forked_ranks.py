"""Data parallelism; what it does before it needs its rank is told by its argument."""

import ctypes
import os
import signal
import subprocess
import sys
import tempfile
import threading

import torch
import torch.distributed as dist

how = sys.argv[1]
if how == "thread":
    threading.Thread(target=threading.Event().wait, daemon=True).start()
if how == "jemalloc":
    named = threading.Event()

    def purge():
        ctypes.CDLL(None).prctl(15, b"jemalloc_bg_thd")  # PR_SET_NAME
        named.set()
        threading.Event().wait()

    threading.Thread(target=purge, daemon=True).start()
    named.wait()
if how == "hangs" and type(os.environ._data) is not dict:
    signal.pause()  # in the fork server
if how == "copy":
    copy = dict(os.environ)
assert not [value for name, value in os.environ.items() if name.startswith("NOBODY_")]
subprocess.run(["uname"], check=True)
if how == "child":
    told = subprocess.run([sys.executable, "-c", "import os; print(os.environ.get('RANK'))"],
                          check=True, capture_output=True, text=True).stdout
    assert told.strip() == os.environ["RANK"]
torch.manual_seed(0)
count = torch.cuda.device_count()  # torch refuses CUDA in what is forked afterwards
if how == "folder":
    own = tempfile.TemporaryDirectory()
    print("in", own.name, flush=True)
if how == "library":
    getenv = ctypes.CDLL(None).getenv
    getenv.restype = ctypes.c_char_p
    rank = int(getenv(b"RANK"))
rank = int(os.environ["RANK"])
print("rank", rank, "of", os.environ["WORLD_SIZE"], "with", count, "GPUs", flush=True)
assert os.environ.copy()["RANK"] == str(rank) and "RANK" in os.environ
if how == "copy":
    assert copy["RANK"] == str(rank)
if how.startswith("imports="):
    names = ("wsgiref.handlers", "this", "torch._inductor.config")
    early = [name for name in names if name in sys.modules]
    os.environ["TORCHINDUCTOR_MAX_AUTOTUNE"] = "1"
    import wsgiref.handlers
    import this
    import torch._inductor.config
    print("autotunes:", torch._inductor.config.max_autotune, flush=True)
    with open(f"{how.partition('=')[2]}.{rank}", "w") as file:
        print(*early, file=file)
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(64, 64).cuda())
optimizer = torch.optim.AdamW(model.parameters())
for step in range(8):
    model(torch.randn(16, 64, device="cuda")).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
dist.destroy_process_group()
