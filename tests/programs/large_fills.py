"""A model made on the CPU: what is drawn there afterwards, and what is not its first values, is as
in a process by itself, which a generator of the program's own shows."""

import torch
import torch.distributed as dist

MIB = 1 << 20


def compare(dtype, elements, fill, first, second):
    torch.manual_seed(3)
    own = torch.Generator().manual_seed(3)
    large = torch.nn.Parameter(torch.empty(elements, dtype=dtype))
    usual = torch.empty_like(large, requires_grad=False)
    with torch.no_grad():
        getattr(large, fill)(first, second)
    getattr(usual, fill)(first, second, generator=own)
    assert torch.equal(torch.get_rng_state(), own.get_state()), (dtype, elements, fill)
    drawn = MIB // large.element_size()
    assert torch.equal(large[:drawn], usual[:drawn])
    assert torch.equal(large[drawn:2 * drawn], large[:drawn])
    assert abs(large.mean(dtype=torch.float32) - usual.mean(dtype=torch.float32)) < 0.01
    with torch.no_grad():
        large[drawn + 5] = 100
    assert large[5] != 100 and large[2 * drawn + 5] != 100 and large[drawn + 5] == 100
    assert large[elements - 1] == large[(elements - 1) % drawn]


dist.init_process_group("gloo")
# Counts that are a multiple of 16, and not.
compare(torch.float32, 3 * MIB, "normal_", 1, 2)
compare(torch.float32, 3 * MIB + 5, "normal_", 1, 2)
compare(torch.float32, 3 * MIB + 5, "uniform_", -1, 1)
compare(torch.bfloat16, 5 * MIB + 5, "normal_", 1, 2)
compare(torch.bfloat16, 5 * MIB, "uniform_", -1, 1)
compare(torch.float64, 2 * MIB + 5, "normal_", 1, 2)
compare(torch.float64, 2 * MIB, "uniform_", -1, 1)

shared = torch.nn.Parameter(torch.empty(4 * MIB).share_memory_())  # not of torch's own allocator
torch.nn.init.normal_(shared)
assert shared.is_shared() and shared[1] == shared[1 + MIB // 4]

torch.empty(4 * MIB, device="cuda").normal_().uniform_()  # not on the CPU
data = torch.empty(4 * MIB).normal_()  # data of a step stay as they are
assert not torch.equal(data[:MIB // 4], data[MIB // 4:MIB // 2])
dist.barrier()
print("filled")
