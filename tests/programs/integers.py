"""Integers that a program reads back: unique values of known and of unknown ones, random ones."""

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


known_unique()
unknown_unique()
random_integers()
