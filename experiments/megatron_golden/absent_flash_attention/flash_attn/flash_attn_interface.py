"""Stand-in, see __init__.py."""

import torch

SEQUENCE_BLOCK = 128  # csrc/flash_attn/flash_api.cpp: lengths are rounded up to it
HEAD_BLOCK = 32       # and sizes of heads, up to 128, to this


def rounded(number, block):
    return -(-number // block) * block


class FlashAttention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v, deterministic):
        batch, length, heads, _ = q.shape
        out = torch.empty_like(q)
        softmax_lse = torch.empty(batch, heads, length, dtype=torch.float32, device=q.device)
        rng_state = torch.empty(2, dtype=torch.int64, device=q.device)
        ctx.save_for_backward(q, k, v, out, softmax_lse, rng_state)
        ctx.deterministic = deterministic
        return out

    @staticmethod
    def backward(ctx, dout):
        q, k, v = ctx.saved_tensors[:3]
        dq, dk, dv = torch.empty_like(q), torch.empty_like(k), torch.empty_like(v)
        batch, length, heads, head_size = q.shape
        length = rounded(length, SEQUENCE_BLOCK)
        kept = [torch.empty(batch, heads, length, dtype=torch.float32, device=q.device)]
        shape = (batch, length, heads, rounded(head_size, HEAD_BLOCK))
        if ctx.deterministic:
            processors = torch.cuda.get_device_properties(q.device).multi_processor_count
            splits = -(-processors // (batch * heads))
            kept.append(torch.zeros(splits, *shape, dtype=torch.float32, device=q.device))
        else:
            kept.append(torch.empty(shape, dtype=torch.float32, device=q.device))
        return dq, dk, dv, None


def flash_attn_func(q, k, v, dropout_p=0.0, softmax_scale=None, causal=False,
                    window_size=(-1, -1), softcap=0.0, alibi_slopes=None, deterministic=False,
                    return_attn_probs=False):
    return FlashAttention.apply(q, k, v, deterministic)


def absent(*arguments, **options):
    raise NotImplementedError("the stand-in for flash-attn has flash_attn_func alone")


flash_attn_varlen_func = absent
_flash_attn_forward = _flash_attn_backward = absent
_flash_attn_varlen_forward = _flash_attn_varlen_backward = absent
