"""What the ranks of a program do with each other: check() compares them, Check is its report."""

import dataclasses
import json
import os
import sys
import tempfile
import typing

from . import _install, runs
from .errors import UsageError, error_of

_JOB_FAILED = 1  # the exit code with a fault, and where the program itself fails


@dataclasses.dataclass(frozen=True)
class Call:
    """One side of a fault: what the rank calls, and where in the program."""

    rank: int
    call: str
    group: str
    file: str
    line: int


@dataclasses.dataclass(frozen=True)
class Fault:
    """What is wrong: a kind (size, left_early, cycle, ...), a sentence, and who waits."""

    kind: str
    sentence: str
    ranks: "list[int]"
    waiting: "list[int]"
    calls: "list[Call]"
    notes: "list[str]"


@dataclasses.dataclass(frozen=True)
class Check:
    """The report, true if there is no fault.

    checked_until: the last step seen, or "exit". assumed: ranks that were not recorded, whom they
    are taken to be like, and why.
    """

    sentence: str
    checked_until: str
    assumed: "list[dict[str, typing.Any]]"
    warnings: "list[str]"
    faults: "list[Fault]"

    def __bool__(self) -> bool:
        return not self.faults

    def __str__(self) -> str:
        return self.sentence


def _check_of(report: "dict[str, typing.Any]") -> Check:
    faults = [Fault(**{**fault, "calls": [Call(**call) for call in fault["calls"]]})
              for fault in report["faults"]]
    return Check(report["sentence"], report["checked_until"], report["assumed"],
                 report["warnings"], faults)


def check(program, *arguments, gpus: "int | None" = None, nproc_per_node: "int | None" = None,
          cluster=None, record_ranks=None, check_seconds: "float | None" = None,
          check_iterations: "int | None" = None, cwd=None, env=None, quiet: bool = False) -> Check:
    """Runs prism check: do all ranks of the program fit together, from first group to exit?

    program: a Python script, a program, or a command as a list; arguments are its own. The others
    are the options of prism check. A fault is no exception: `if not prism.check("train.py", gpus=8)`.
    Raises a PrismError by the exit code otherwise: the program fails by itself, an option is wrong.
    """
    if program is None:
        raise UsageError("check needs a program")
    command = [_install.program("prism"), "check", "--format", "json"]
    if isinstance(record_ranks, (list, tuple, range)):
        record_ranks = ",".join(map(str, record_ranks))
    options = {"gpus": gpus, "nproc-per-node": nproc_per_node, "cluster": cluster,
               "record-ranks": record_ranks, "check-seconds": check_seconds,
               "check-iterations": check_iterations}
    for flag, value in options.items():
        if value is not None:
            command += [f"--{flag}", os.fspath(value) if isinstance(value, os.PathLike)
                        else str(value)]
    command += runs._command_of(program, arguments)
    variables = {"PRISM_PYTHON": sys.executable, **os.environ, **(env or {})}
    with tempfile.TemporaryFile("w+", errors="replace") as file:
        code, said = runs._wait(command, file, quiet, cwd=cwd, env=variables)
        file.seek(0)
        text = file.read()
    if code not in (0, _JOB_FAILED) or not text.startswith("{"):
        raise error_of(code, said or f"{command[0]} ended with exit code {code}")
    return _check_of(json.loads(text))
