"""Stand-in, see apex/__init__.py: a new result forward, in place backward. The masked kernels are
other names of it."""

import torch


def forward(inputs, *mask_and_scale):
    return torch.empty_like(inputs)


def backward(output_grads, softmax_results, scale):
    return output_grads.contiguous()


def get_batch_per_block(query_length, key_length, batches, heads):
    # Warps per block over batches per warp (csrc/megatron/scaled_masked_softmax.h).
    next_power_of_two = 1 << (key_length - 1).bit_length()
    return (128 // min(next_power_of_two, 32)) * (2 if next_power_of_two <= 128 else 1)
