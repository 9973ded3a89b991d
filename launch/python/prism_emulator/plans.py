"""What a training plan takes of time, memory and money: launch/plan/prism_plan.h for Python.

    from prism_emulator import plans
    evaluator = plans.Evaluator(model="gpt3-175b", cluster="h100-8x")
    pair = (plans.Plan * 2)(plans.plan(tp=8, pp=16, dp=64), plans.plan(tp=4, dp=2048))
    for cost in evaluator.evaluate(pair):
        print(cost.iteration_s, cost.free_bytes)

Arrays are handed to the library as they lie in memory. One of numpy's, with the fields of Plan or
Cost in their order, is wrapped in place: (plans.Plan * len(array)).from_buffer(array).
"""

import ctypes
import operator
import os

from . import _install

OK, TOO_LARGE, IMPOSSIBLE, NOT_MODELLED = range(4)


class _Problem(ctypes.Structure):
    _fields_ = [(name, ctypes.c_char_p) for name in ("model", "cluster", "framework", "precision")]
    _fields_ += [("global_batch_size", ctypes.c_int64), ("seq_len", ctypes.c_int64),
                 ("tokens", ctypes.c_double)]


class Plan(ctypes.Structure):
    __slots__ = ()  # else a name that is no field would be taken and have no effect
    _fields_ = [(name, ctypes.c_int32) for name in (
        "tp", "cp", "pp", "dp", "ep", "vpp", "micro_batch_size", "recompute", "zero",
        "sequence_parallel", "offload")]


class Cost(ctypes.Structure):
    _fields_ = [(name, ctypes.c_double) for name in (
        "iteration_s", "iteration_low_s", "iteration_high_s", "days", "gpu_hours", "price_usd",
        "energy_kwh", "mfu", "hfu")]
    _fields_ += [(name, ctypes.c_int64) for name in (
        "allocated_bytes", "device_bytes", "free_bytes", "status", "host_bytes")]


def _whole(name, value, bits):
    """`value` as an integer; ctypes would cut off what does not fit."""
    number = operator.index(value)
    if not -(1 << bits - 1) <= number < 1 << bits - 1:
        raise ValueError(f"{name}: {number} is not within {bits} bits")
    return number


def _text(value):
    """A name or path for C; nothing for the default."""
    return os.fsencode(value) if value else None


def plan(**choices):
    """A plan with those choices; what is left out is one, none or off. TypeError for a choice that
    Plan does not have, ValueError for a number that is not within 32 bits."""
    known = [name for name, _ in Plan._fields_]
    unknown = [name for name in choices if name not in known]
    if unknown:
        raise TypeError(f"a plan has no {', '.join(unknown)}; it has {', '.join(known)}")
    sizes = dict.fromkeys(("tp", "cp", "pp", "dp", "ep", "vpp", "micro_batch_size"), 1)
    return Plan(**sizes | {name: _whole(name, value, 32) for name, value in choices.items()})


def _check_array(name, array, kind):
    if not isinstance(array, ctypes.Array) or array._type_ is not kind:
        raise ValueError(
            f"{name}: an array of {kind.__name__} is needed, not {type(array).__name__}")


class Evaluator:
    """`model` and `cluster` are presets or paths, None and 0 the defaults of `prism search`.
    `library`: libprism_plan.so; that of this installation if left out."""

    def __init__(self, model=None, cluster=None, framework=None, precision=None,
                 global_batch_size=0, seq_len=0, tokens=0.0, library=None):
        path = library or _install.ROOT / "lib" / "libprism_plan.so"
        self._calls = ctypes.CDLL(str(path))
        self._calls.prism_plan_create.restype = ctypes.c_void_p
        self._calls.prism_plan_evaluate.restype = ctypes.c_int64
        self._calls.prism_plan_evaluate.argtypes = [
            ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int32, ctypes.c_void_p]
        problem = _Problem(
            *(_text(name) for name in (model, cluster, framework, precision)),
            _whole("global_batch_size", global_batch_size, 64), _whole("seq_len", seq_len, 64),
            tokens)
        error = ctypes.create_string_buffer(1024)
        self._evaluator = self._calls.prism_plan_create(
            ctypes.byref(problem), error, ctypes.c_size_t(len(error)))
        if not self._evaluator:
            raise ValueError(error.value.decode())

    def evaluate(self, plans, threads=1, costs=None):
        """Costs of an array of plans, in `costs` if given. ValueError where these are not arrays
        of Plan and Cost, or `costs` is the shorter one."""
        _check_array("plans", plans, Plan)
        costs = (Cost * len(plans))() if costs is None else costs
        _check_array("costs", costs, Cost)
        if len(costs) < len(plans):
            raise ValueError(f"costs has room for {len(costs)} of {len(plans)} plans")
        if _whole("threads", threads, 32) < 1:
            raise ValueError(f"threads: {threads} is less than 1")
        self._calls.prism_plan_evaluate(self._evaluator, ctypes.byref(plans), len(plans), threads,
                                        ctypes.byref(costs))
        return costs

    def __del__(self):
        if getattr(self, "_evaluator", None):
            self._calls.prism_plan_destroy(ctypes.c_void_p(self._evaluator))
