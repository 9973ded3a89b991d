"""Causal attention in Triton by the first FlashAttention's plan, as LLM Foundry had it in 2023 (attn_impl: triton): a
block of queries passes over its keys; backward, a block of keys passes over its queries and adds to their gradients."""
import torch
import triton
import triton.language as tl

BLOCK = 128


@triton.jit
def _places(stride_b, stride_s, stride_h, heads, rows, WIDTH: tl.constexpr):
    base = (tl.program_id(1) // heads) * stride_b + (tl.program_id(1) % heads) * stride_h
    return base + rows[:, None] * stride_s + tl.arange(0, WIDTH)[None, :]


@triton.jit
def _fwd_kernel(q, k, v, out, lse, scale, stride_b, stride_s, stride_h, heads, seq,
                WIDTH: tl.constexpr, BLOCK: tl.constexpr):
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    queries = tl.load(q + _places(stride_b, stride_s, stride_h, heads, rows, WIDTH),
                      mask=rows[:, None] < seq, other=0.0)
    most = tl.full([BLOCK], float("-inf"), tl.float32)
    total = tl.zeros([BLOCK], tl.float32)
    sums = tl.zeros([BLOCK, WIDTH], tl.float32)
    for start in range(0, (tl.program_id(0) + 1) * BLOCK, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        there = _places(stride_b, stride_s, stride_h, heads, columns, WIDTH)
        keys = tl.load(k + there, mask=columns[:, None] < seq, other=0.0)
        values = tl.load(v + there, mask=columns[:, None] < seq, other=0.0)
        scores = tl.dot(queries, tl.trans(keys)) * scale
        scores = tl.where(rows[:, None] >= columns[None, :], scores, float("-inf"))
        new = tl.maximum(most, tl.max(scores, 1))
        p = tl.exp(scores - new[:, None])
        kept = tl.exp(most - new)
        total = total * kept + tl.sum(p, 1)
        sums = sums * kept[:, None] + tl.dot(p.to(values.dtype), values)
        most = new
    own = _places(seq * heads * WIDTH, heads * WIDTH, WIDTH, heads, rows, WIDTH)
    tl.store(out + own, (sums / total[:, None]).to(out.dtype.element_ty), mask=rows[:, None] < seq)
    tl.store(lse + tl.program_id(1) * seq + rows, most + tl.log(total), mask=rows < seq)


@triton.jit
def _bwd_preprocess_do_o_dot(out, dout, delta, heads, seq, WIDTH: tl.constexpr, BLOCK: tl.constexpr):
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    own = _places(seq * heads * WIDTH, heads * WIDTH, WIDTH, heads, rows, WIDTH)
    o = tl.load(out + own, mask=rows[:, None] < seq, other=0.0).to(tl.float32)
    do = tl.load(dout + own, mask=rows[:, None] < seq, other=0.0).to(tl.float32)
    tl.store(delta + tl.program_id(1) * seq + rows, tl.sum(o * do, 1), mask=rows < seq)


@triton.jit
def _bwd_kernel(q, k, v, dout, dq, dk, dv, lse, delta, scale, stride_b, stride_s, stride_h, heads, seq,
                WIDTH: tl.constexpr, BLOCK: tl.constexpr):
    columns = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    there = _places(stride_b, stride_s, stride_h, heads, columns, WIDTH)
    keys = tl.load(k + there, mask=columns[:, None] < seq, other=0.0)
    values = tl.load(v + there, mask=columns[:, None] < seq, other=0.0)
    of_keys = tl.zeros([BLOCK, WIDTH], tl.float32)
    of_values = tl.zeros([BLOCK, WIDTH], tl.float32)
    for start in range(tl.program_id(0) * BLOCK, seq, BLOCK):
        rows = start + tl.arange(0, BLOCK)
        inside = rows[:, None] < seq
        queries = tl.load(q + _places(stride_b, stride_s, stride_h, heads, rows, WIDTH), mask=inside, other=0.0)
        own = _places(seq * heads * WIDTH, heads * WIDTH, WIDTH, heads, rows, WIDTH)
        do = tl.load(dout + own, mask=inside, other=0.0)
        row = tl.program_id(1) * seq + rows
        scores = tl.dot(queries, tl.trans(keys)) * scale
        p = tl.exp(scores - tl.load(lse + row, mask=rows < seq, other=0.0)[:, None])
        p = tl.where((rows[:, None] >= columns[None, :]) & inside, p, 0.0)
        of_values += tl.dot(tl.trans(p.to(do.dtype)), do)
        dp = tl.dot(do, tl.trans(values))
        ds = (p * (dp - tl.load(delta + row, mask=rows < seq, other=0.0)[:, None]) * scale).to(queries.dtype)
        of_keys += tl.dot(tl.trans(ds), queries)
        tl.atomic_add(dq + own, tl.dot(ds, keys), mask=inside)
    own = _places(seq * heads * WIDTH, heads * WIDTH, WIDTH, heads, columns, WIDTH)
    tl.store(dk + own, of_keys.to(dk.dtype.element_ty), mask=columns[:, None] < seq)
    tl.store(dv + own, of_values.to(dv.dtype.element_ty), mask=columns[:, None] < seq)


class FlashAttnFunc(torch.autograd.Function):
    """Of queries, keys and values [batch, sequence, heads, width] with the same strides."""

    @staticmethod
    def forward(ctx, q, k, v):
        b, s, h, width = q.shape
        out = torch.empty(q.shape, dtype=q.dtype, device=q.device)
        lse = torch.empty((b, h, s), dtype=torch.float32, device=q.device)
        _fwd_kernel[(triton.cdiv(s, BLOCK), b * h)](
            q, k, v, out, lse, width**-0.5, *q.stride()[:3], h, s,
            WIDTH=width, BLOCK=BLOCK, num_warps=8, num_stages=1,
        )
        ctx.save_for_backward(q, k, v, out, lse)
        return out

    @staticmethod
    def backward(ctx, dout):
        q, k, v, out, lse = ctx.saved_tensors
        b, s, h, width = q.shape
        dout = dout.contiguous()
        delta = torch.empty_like(lse)
        dq = torch.zeros(q.shape, dtype=torch.float32, device=q.device)
        dk, dv = torch.empty_like(out), torch.empty_like(out)
        block = BLOCK if width <= 64 else BLOCK // 2  # what an A100's shared memory holds
        grid = (triton.cdiv(s, block), b * h)
        _bwd_preprocess_do_o_dot[grid](out, dout, delta, h, s, WIDTH=width, BLOCK=block)
        _bwd_kernel[grid](
            q, k, v, dout, dq, dk, dv, lse, delta, width**-0.5, *q.stride()[:3], h, s,
            WIDTH=width, BLOCK=block, num_warps=8, num_stages=1,
        )
        return dq.to(q.dtype), dk, dv
