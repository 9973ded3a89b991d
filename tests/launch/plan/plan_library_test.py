"""The Python module calls the library in place, and its structures have the library's layout."""

import ctypes
import pathlib

from prism_emulator import plans as prism_plan

evaluator = prism_plan.Evaluator(model="gpt3-1.3b", cluster="a100-40-8x", global_batch_size=64)
plans = (prism_plan.Plan * 2)(
    prism_plan.plan(tp=2, pp=2, dp=4, zero=1, sequence_parallel=1), prism_plan.plan(tp=3))
costs = evaluator.evaluate(plans, threads=2)
assert [cost.status for cost in costs] == [prism_plan.OK, prism_plan.IMPOSSIBLE]
assert 0 < costs[0].iteration_low_s < costs[0].iteration_s < costs[0].iteration_high_s
assert 0 < costs[0].allocated_bytes < costs[0].device_bytes
assert costs[1].iteration_s == 0

# Results go into the caller's memory.
memory = bytearray(2 * ctypes.sizeof(prism_plan.Cost))
evaluator.evaluate(plans, costs=(prism_plan.Cost * 2).from_buffer(memory))
assert bytes(memory) == bytes(costs)


def refusal(call, *arguments, **named):
    try:
        call(*arguments, **named)
    except (AttributeError, TypeError, ValueError) as error:
        return f"{type(error).__name__} {error}"
    return "taken"


# A name that is not a choice, and a number that would be truncated, are not ignored.
assert refusal(prism_plan.plan, zero_stage=1).startswith("TypeError a plan has no zero_stage; it has")
assert "AttributeError" in refusal(prism_plan.Plan, zero_stage=1)
assert "ValueError tp: 4294967304" in refusal(prism_plan.plan, tp=2**32 + 8)
assert "TypeError" in refusal(prism_plan.plan, tp=2.5)
assert "global_batch_size: 18446744073709553152" in refusal(
    prism_plan.Evaluator, global_batch_size=2**64 + 1536)
assert "seq_len: 1180591620717411303424" in refusal(prism_plan.Evaluator, seq_len=1 << 70)
assert "threads: 4294967297" in refusal(evaluator.evaluate, plans, threads=2**32 + 1)

# Names may be paths, and empty ones mean the default; messages name arguments, not options.
assert refusal(prism_plan.Evaluator, model="", cluster=None) == "taken"
assert "nowhere.toml" in refusal(prism_plan.Evaluator, model=pathlib.Path("nowhere.toml"))
assert refusal(prism_plan.Evaluator, precision="fp64").startswith("ValueError precision: 'fp64' is")
assert refusal(prism_plan.Evaluator, framework="foo").startswith("ValueError framework: 'foo' is")


assert "gpt3-none" in refusal(prism_plan.Evaluator, model="gpt3-none")
assert "global_batch_size" in refusal(prism_plan.Evaluator, global_batch_size=2**40)
assert "seq_len" in refusal(prism_plan.Evaluator, seq_len=2**40)
assert "tokens" in refusal(prism_plan.Evaluator, tokens=float("nan"))

# Values that the library would misread are not passed to it.
assert "room for 1 of 2" in refusal(evaluator.evaluate, plans, costs=(prism_plan.Cost * 1)())
assert "array of Plan" in refusal(evaluator.evaluate, (prism_plan.Cost * 2)())
assert "array of Plan" in refusal(evaluator.evaluate, prism_plan.plan(tp=2))
assert "array of Cost" in refusal(evaluator.evaluate, plans, costs=(prism_plan.Plan * 2)())
assert "threads: 0" in refusal(evaluator.evaluate, plans, threads=0)
