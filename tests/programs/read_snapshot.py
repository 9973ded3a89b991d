"""Opens a memory snapshot as PyTorch's viewer does and holds it against the run's own peak."""

import json
import pickle
import sys

import torch.cuda._memory_viz as viewer

with open(sys.argv[1], "rb") as file:
    snapshot = pickle.load(file)
with open(sys.argv[2]) as file:
    peak = json.load(file)["peak_memory"]
for segment in snapshot["segments"]:
    assert sum(block["size"] for block in segment["blocks"]) == segment["total_size"]
held = highest = reserved = 0
for event in snapshot["device_traces"][0]:
    sizes = {"alloc": event["size"], "free_completed": -event["size"]}
    held += sizes.get(event["action"], 0)
    highest = max(highest, held)
    reserved += event["size"] if event["action"] == "segment_alloc" else 0
assert held == sum(block["size"] for segment in snapshot["segments"] for block in segment["blocks"]
                   if block["state"] == "active_allocated"), held
assert highest == peak["allocated_bytes"], (highest, peak)
assert reserved == peak["reserved_bytes"], (reserved, peak)
assert any(event["frames"] and event["frames"][0]["name"].startswith("aten::")
           for event in snapshot["device_traces"][0])
viewer.trace_plot(snapshot)
assert viewer.segsum(snapshot) and viewer.trace(snapshot)
