"""The Python module calls the library in place, and its structures have the library's layout."""

import ctypes

import prism_plan

evaluator = prism_plan.Evaluator(model="gpt3-1.3b", cluster="a100-40-8x", global_batch_size=64)
plans = (prism_plan.Plan * 2)(
    prism_plan.plan(tp=2, pp=2, dp=4, zero=1, sequence_parallel=1), prism_plan.plan(tp=3))
costs = evaluator.evaluate(plans, threads=2)
assert [cost.status for cost in costs] == [prism_plan.OK, prism_plan.IMPOSSIBLE]
assert 0 < costs[0].iteration_low_s < costs[0].iteration_s < costs[0].iteration_high_s
assert 0 < costs[0].allocated_bytes < costs[0].device_bytes
assert costs[1].iteration_s == 0

# Results go into memory that the caller has.
memory = bytearray(2 * ctypes.sizeof(prism_plan.Cost))
evaluator.evaluate(plans, costs=(prism_plan.Cost * 2).from_buffer(memory))
assert bytes(memory) == bytes(costs)

try:
    prism_plan.Evaluator(model="gpt3-none")
    raise AssertionError("a model that does not exist was taken")
except ValueError as error:
    assert "gpt3-none" in str(error)
