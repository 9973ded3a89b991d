"""Integers that a program reads back: unique values, random ones, and what ops change in place."""

import torch


def lists(*tensors):
    return " ".join(str(tensor.tolist()) for tensor in tensors)


def known_unique():
    values = torch.tensor([7, 3, 3, 9, 7, 7]).cuda()
    print("unique", lists(*torch.unique(values, return_inverse=True, return_counts=True)))
    print("values", lists(values.unique(), (values > 5).unique(), values.to(torch.int8).unique()))
    print("inverse", lists(*torch.unique(values > 5, return_inverse=True, return_counts=True)))
    print("runs", lists(*torch.unique_consecutive(values, True, True)))
    print("run values", lists(torch.unique_consecutive(values)))
    pairs = torch.tensor([[1, 2], [0, 5], [1, 2]]).cuda()
    print("rows", lists(*torch.unique(pairs, return_inverse=True, return_counts=True, dim=0)))
    print("columns", lists(torch.unique(pairs, dim=1)))
    print("row runs", lists(*torch.unique_consecutive(pairs, True, True, dim=0)))
    print("of floats", lists(torch.unique(torch.rand(6).cuda(), return_inverse=True)[1].sort()[0]))


def unknown_unique():
    scores = torch.randn(4, 2, device="cuda")
    values, inverse, counts = torch.unique(scores, return_inverse=True, return_counts=True)
    print("all", values.numel(), lists(inverse, counts))
    values, inverse, counts = torch.unique(scores, return_inverse=True, return_counts=True, dim=0)
    print("all rows", *values.shape, lists(inverse, counts))
    print("all runs", torch.unique_consecutive(scores).numel())
    values, inverse = torch.unique(torch.bernoulli(scores).bool(), return_inverse=True)
    print("truths", values.numel(), lists(inverse))
    print("bytes", torch.empty(1000, dtype=torch.uint8, device="cuda").unique().numel())
    print("none", torch.empty(0, dtype=torch.long, device="cuda").unique().numel())


def range_of(tensor):
    return sorted(set(tensor.tolist()))


def random_integers():
    few = torch.randint(1, 5, (200,), device="cuda")
    print("drawn", range_of(few), range_of(torch.randint_like(few, 3, 6)))
    print("again", few.tolist() == torch.randint(1, 5, (200,), device="cuda").tolist())
    target = torch.empty(20, dtype=torch.int32, device="cuda")
    print("in place", range_of(target.random_(-2, 0)), range_of(target.random_(2)))
    print("real", range_of(torch.randint(4, (50,), dtype=torch.float, device="cuda")))
    order = torch.randperm(50, device="cuda")
    print("permutation", order.tolist() == list(range(50)), range_of(order) == list(range(50)))
    print("first", lists(few[:8], order[:8]))


def changed_in_place():
    count = torch.zeros((), dtype=torch.long, device="cuda")
    weight = torch.zeros(4, device="cuda")
    torch._foreach_add_([weight, count], 2)
    print("added", count.item())
    copy = torch.ones((), dtype=torch.int32, device="cuda")
    torch._foreach_copy_([weight, copy], [weight, count])
    torch._foreach_zero_([weight, count])
    print("copied", copy.item(), count.item())
    out = torch.empty(3, dtype=torch.long, device="cuda")
    torch.add(torch.arange(3, device="cuda"), 1, out=out)
    print("out", out.tolist(), torch.nonzero(out > 1, out=torch.empty_like(out)).flatten().tolist())
    table = torch.arange(6, device="cuda").view(3, 2)
    table[:, 0] = 9
    table[:, 1] += 1
    table[2].clamp_(max=8)
    print("table", table.tolist())
    table[:, 0].zero_()
    print("zeroed", table.tolist())


def joined():
    sums = torch.randn(2, device="cuda")
    table = torch.cat([sums, torch.full((2,), 5.0, device="cuda"), sums.new_empty(0)])
    print("joined", torch.nonzero(table[2:] >= 5).flatten().tolist(), (table[2:] > 5).tolist())
    pairs = torch.cat([torch.bernoulli(sums).int()[:, None], torch.ones(2, 1).int().cuda()], -1)
    print("beside unknown", pairs[:, 1].tolist())


def overwritten_by_kernels():
    scores = torch.randn(3, device="cuda")
    unknown = scores.long()
    table = torch.arange(6, device="cuda").view(3, 2)
    table[:, 0] += unknown
    print("column", table[:, 1].tolist())
    print("forgotten", table[:, 0].tolist())
    counts = torch.ones(3, dtype=torch.int32, device="cuda")
    counts.copy_(scores)
    torch._foreach_mul_([counts], 2)
    print("converted", counts.tolist())


known_unique()
unknown_unique()
random_integers()
changed_in_place()
joined()
overwritten_by_kernels()
