"""Stand-in, see apex/__init__.py."""

import torch

MAX_BLOCKS = 320  # csrc/multi_tensor_l2norm_kernel.cu


def multi_tensor_l2norm(chunk_size, noop_flag, tensor_lists, per_tensor=False):
    blocks = torch.zeros(MAX_BLOCKS, dtype=torch.float32, device=noop_flag.device)
    norm = torch.empty(1, dtype=torch.float32, device=noop_flag.device)
    del blocks
    count = len(tensor_lists[0]) if per_tensor else 0
    return norm, torch.empty(count, dtype=torch.float32, device=noop_flag.device)


def multi_tensor_scale(chunk_size, noop_flag, tensor_lists, scale):
    pass
