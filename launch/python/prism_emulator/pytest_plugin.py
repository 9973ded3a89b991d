"""Pytest's mark `prism`: a test runs as one rank of a job with many GPUs, on the virtual device.

    @pytest.mark.prism(gpus=256, rank=0)
    def test_all_reduce():
        torch.distributed.init_process_group("nccl")
        ...

The test runs in a process of its own under prism-emulate, with the environment of its rank. Its
result is that of the emulated rank, where it has one, else that of the recording in which it ended.
Other keywords of the mark are options of prism-emulate. Fixtures are set up in that process too;
nothing of the test runs in the process of pytest itself.
"""

import importlib.util
import json
import os
import pathlib
import sys
import tempfile

import pytest

from . import runs
from .errors import PrismError

_INSIDE = "PYTEST_PRISM_REPORT"  # of the process that is the rank: where its reports go
_RANK = "PYTEST_PRISM_RANK"


def pytest_configure(config):
    config.addinivalue_line(
        "markers", "prism(gpus, rank=0, **options): run the test as one rank of a job on a virtual "
        "device, by prism-emulate with these options")


def _run_inside(item, nextitem):
    """Runs the test, keeps its reports if this is the rank in question, and makes what
    prism-emulate needs of a program: iterations, and an end without a fault whatever the test
    says, since other ranks than the one in question may fail it."""
    from _pytest.runner import runtestprotocol

    reports = runtestprotocol(item, nextitem=nextitem, log=False)
    if os.environ["RANK"] == os.environ[_RANK]:
        path = pathlib.Path(os.environ[_INSIDE])
        data = [item.config.hook.pytest_report_to_serializable(config=item.config, report=report)
                for report in reports]
        part = path.with_suffix(f".{os.getpid()}")
        part.write_text(json.dumps(data))
        part.replace(path)
    import torch

    for _ in range(3):
        with torch.profiler.record_function("iteration"):
            torch.ones(1, device="cuda").add_(1)
            torch.cuda.synchronize()


def _reports_of_rank(item, mark):
    options = dict(mark.kwargs)
    rank = options.pop("rank", 0)
    if mark.args or "gpus" not in options or not isinstance(rank, int):
        raise pytest.UsageError(f"{item.nodeid}: the mark is prism(gpus=N, rank=R, OPTION=VALUE)")
    with tempfile.TemporaryDirectory(prefix="prism-pytest-") as folder:
        path = pathlib.Path(folder) / "reports.json"
        plugin = item.config.pluginmanager.get_name(sys.modules[__name__])  # twice is an error
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", plugin,
                   "--rootdir", str(item.config.rootpath), item.nodeid]
        said = ""
        try:
            runs.run(command, rank=rank, iterations=1, quiet=True, cwd=item.config.rootpath,
                     env={_INSIDE: str(path), _RANK: str(rank)}, out=os.path.join(folder, "run"),
                     **options)
        except PrismError as error:
            said = str(error)
        if not path.exists():
            text = f"rank {rank} did not reach the end of the test:\n{said}"
            return [_report(item, "failed", text)]
        hook = item.config.hook
        return [hook.pytest_report_from_serializable(config=item.config, data=data)
                for data in json.loads(path.read_text())]


def _report(item, outcome, longrepr):
    return pytest.TestReport(item.nodeid, item.location, dict.fromkeys(item.keywords, 1), outcome,
                             longrepr, "call")


def _skipped(item):
    path, line, _ = item.location
    reason = (str(path), line, "Skipped: torch is not installed; there is no job to be a rank of")
    return [_report(item, "skipped", reason)]


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item, nextitem):
    mark = item.get_closest_marker("prism")
    if mark is None:
        return None
    if _INSIDE in os.environ:
        _run_inside(item, nextitem)
        return True
    hook = item.ihook
    hook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    if importlib.util.find_spec("torch") is None:
        reports = _skipped(item)
    else:
        reports = _reports_of_rank(item, mark)
    for report in reports:
        hook.pytest_runtest_logreport(report=report)
    hook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True
