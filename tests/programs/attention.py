"""Scaled-dot-product attention with every back end, forward and backward."""

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

SHAPE = (2, 8, 1024, 128)


def attention(backends):
    q, k, v = [
        torch.empty(SHAPE, device="cuda", dtype=torch.bfloat16, requires_grad=True)
        for _ in range(3)
    ]
    torch.cuda.reset_peak_memory_stats()
    with sdpa_kernel(backends):
        out = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        out.backward(torch.empty_like(out))
    return type(out.grad_fn).__name__, torch.cuda.max_memory_allocated()


def main():
    q = torch.empty(SHAPE, device="cuda", dtype=torch.bfloat16, requires_grad=True)
    default = F.scaled_dot_product_attention(q, q, q, is_causal=True)
    print("default", type(default.grad_fn).__name__)
    del q, default
    for backend in (
        SDPBackend.FLASH_ATTENTION,
        SDPBackend.EFFICIENT_ATTENTION,
        SDPBackend.CUDNN_ATTENTION,
        SDPBackend.MATH,
    ):
        print(backend.name, *attention(backend))


main()
