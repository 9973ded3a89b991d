"""Capture and replay: streams, events, private pools, graphed modules, and what must fail."""

import torch


def capture_with_side_stream():
    source = torch.zeros(4, device="cuda")
    target = torch.zeros(4, device="cuda")
    side = torch.cuda.Stream()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            target.copy_(source)
        torch.cuda.current_stream().wait_stream(side)
        target.mul_(2)
    source.copy_(torch.arange(4.0))
    print("before", target.tolist())
    graph.replay()
    torch.cuda.synchronize()
    print("after", target.tolist())


def graphed_module():
    module = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.Linear(64, 64)).cuda()
    sample = torch.zeros(8, 64, device="cuda", requires_grad=True)
    graphed = torch.cuda.make_graphed_callables(module, (sample,))
    with torch.autograd.profiler.record_function("iteration"):
        for _ in range(3):
            graphed(torch.zeros(8, 64, device="cuda")).sum().backward()


# The optimizer step inside counts as one at each launch.
def step_in_a_graph():
    module = torch.nn.Linear(64, 64).cuda()
    optimizer = torch.optim.Adam(module.parameters(), capturable=True)

    def train():
        optimizer.zero_grad()
        module(torch.ones(8, 64, device="cuda")).sum().backward()
        optimizer.step()

    with torch.cuda.stream(torch.cuda.Stream()):
        train()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        train()
    with torch.autograd.profiler.record_function("launches"):
        for _ in range(3):
            graph.replay()


def refused(name, body):
    try:
        with torch.cuda.graph(torch.cuda.CUDAGraph()):
            body()
        print(name, "no error")
    except RuntimeError as error:
        print(name, str(error).split("\n")[0])


def unjoined():
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        torch.zeros(4, device="cuda").add_(1)


def private_pool():
    graph = torch.cuda.CUDAGraph()
    before = torch.cuda.memory_reserved()
    with torch.cuda.graph(graph):
        kept = torch.empty(64 << 20, device="cuda", dtype=torch.uint8).add_(1)
    del kept
    print("pool", (torch.cuda.memory_reserved() - before) >> 20)
    graph.reset()


capture_with_side_stream()
step_in_a_graph()
graphed_module()
refused("synchronize", torch.cuda.synchronize)
refused("item", lambda: torch.zeros(1, device="cuda").item())
refused("unjoined", unjoined)
private_pool()
