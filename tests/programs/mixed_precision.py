"""Values that steer a program: loss scaling, NaN checks, constants, stale memory."""

import torch


def train_with_scaler():
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.Linear(64, 8)).cuda()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    scaler = torch.amp.GradScaler("cuda", init_scale=1024.0)
    steps = 0
    optimizer.register_step_post_hook(lambda *_: None)
    for _ in range(3):
        with torch.autocast("cuda", dtype=torch.float16):
            target = torch.zeros(16, dtype=torch.long, device="cuda")
            loss = torch.nn.functional.cross_entropy(model(torch.zeros(16, 64).cuda()), target)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0, error_if_nonfinite=True)
        if scaler.step(optimizer) is None:
            steps += 1
        scaler.update()
        optimizer.zero_grad()
    print("scale", scaler.get_scale())
    print("nan", bool(torch.isnan(loss).any()), bool(torch.isfinite(loss).all()))


def constants():
    print("arange", torch.arange(1, 9, 3, device="cuda").tolist())
    print("full", torch.full((2,), 7, device="cuda").tolist(), torch.ones(1, device="cuda").item())
    print("equal", torch.equal(torch.zeros(3).cuda(), torch.zeros(3).cuda()))


def stale_memory():
    old = torch.tensor([1, 2, 3, 4]).cuda()
    address = old.data_ptr()
    del old
    new = torch.empty(4, dtype=torch.long, device="cuda")
    assert new.data_ptr() == address
    print("stale", new.tolist())


train_with_scaler()
constants()
stale_memory()
