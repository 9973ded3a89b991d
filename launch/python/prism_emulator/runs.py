"""Runs of prism-emulate: run() starts one and waits for it, Run reads its output folder."""

import collections
import csv
import ctypes
import functools
import html
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile

from . import _install, _options
from .errors import error_of

_LAST_LINES = 40  # of what a failed run said, for its exception


class Run:
    """The result of a run, read from its output folder when asked for.

    summary: the dict of summary.json; report: what the program printed; folder, graph: paths.
    """

    def __init__(self, folder, report: str = "", temporary=None):
        self.folder = pathlib.Path(folder)
        self.graph = self.folder / "graph.prism"
        self.report = report
        self._temporary = temporary  # removed together with this object
        self.summary: dict = json.loads((self.folder / "summary.json").read_text())

    @property
    def iteration_time_s(self) -> float:
        return self.summary["iteration_time_s"]

    @property
    def breakdown(self) -> "dict[str, float]":
        """Shares of the iteration: compute, exposed_comm, bubble, idle."""
        return self.summary["breakdown"]

    @functools.cached_property
    def ranks(self) -> dict:
        """ranks.csv by column, one value a rank; numbers are arrays where numpy is installed."""
        with open(self.folder / "ranks.csv", newline="") as file:
            rows = list(csv.DictReader(file))
        return {name: _column([row[name] for row in rows]) for name in (rows[0] if rows else ())}

    @property
    def memory(self) -> dict:
        """Peak bytes of every rank: allocated, reserved, device."""
        names = {"allocated": "peak_allocated_bytes", "reserved": "peak_reserved_bytes",
                 "device": "device_bytes"}
        return {name: self.ranks[column] for name, column in names.items()}

    @functools.cached_property
    def logs(self) -> "dict[int, str]":
        """What each sandbox rank printed."""
        files = {int(file.stem[4:]): file for file in (self.folder / "logs").glob("rank*.log")}
        return {rank: files[rank].read_text(errors="replace") for rank in sorted(files)}

    def __repr__(self) -> str:
        job = self.summary["job"]
        peak = self.summary["peak_memory"]
        return (f"<prism.Run {job['name']} on {job['target_gpus']:,} GPUs: "
                f"{self.iteration_time_s:.6g} s an iteration, peak "
                f"{peak['device_bytes'] / 2**30:.2f} GiB on rank {peak['rank']}>")

    def __str__(self) -> str:
        return self.report or repr(self)

    def _repr_html_(self) -> str:
        with tempfile.TemporaryDirectory() as folder:
            page = pathlib.Path(folder) / "report.html"
            command = [_install.program("prism"), "report", str(self.folder), "--html", str(page)]
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode != 0:
                raise error_of(done.returncode, done.stderr.strip())
            text = html.escape(page.read_text())
        return f'<iframe style="width: 100%; height: 48em; border: 0" srcdoc="{text}"></iframe>'


def _column(texts):
    for kind in (int, float):
        try:
            values = [kind(text) for text in texts]
        except ValueError:
            continue
        try:
            import numpy
        except ImportError:
            return values
        return numpy.array(values)
    return texts


def _command_of(program, arguments):
    """`program` as words: a Python script is started by this interpreter."""
    if program is None:
        return []
    if isinstance(program, (list, tuple)):
        return ["--", *map(str, program), *map(str, arguments)]
    path = os.fspath(program)
    python = [sys.executable] if path.endswith(".py") else []
    return ["--", *python, path, *map(str, arguments)]


def run(program=None, *arguments, out=None, processes=1, cwd=None, env=None, quiet=False,
        **options) -> Run:
    """Runs prism-emulate and returns its result.

    program: a Python script, a program, a command as a list, or None for the built-in job;
    arguments are its own. out: the output folder, temporary if left out. processes: under mpirun.
    env: variables in addition to those of this process. quiet: show no progress on stderr. Other
    keywords are the options of prism-emulate (gpus and rank are short for target_gpus and
    sandbox_ranks). Raises a PrismError by the exit code; on Ctrl-C the run ends in order.
    """
    temporary = None
    if out is None:
        temporary = tempfile.TemporaryDirectory(prefix="prism-")
        out = os.path.join(temporary.name, "run")
    command = [_install.program("prism-emulate"), "--out", os.path.abspath(out)]
    command += _options.words(options) + _command_of(program, arguments)
    if processes > 1:
        command = ["mpirun", "-n", str(processes), *command]
    variables = {"PRISM_PYTHON": sys.executable, **os.environ, **(env or {})}
    with tempfile.TemporaryFile("w+", errors="replace") as report:
        code, said = _wait(command, report, quiet, cwd=cwd, env=variables)
        report.seek(0)
        text = report.read()
    if code != 0:
        raise error_of(code, said or f"{command[0]} ended with exit code {code}")
    return Run(out, text, temporary)


_LIBC = ctypes.CDLL(None)


def _end_with_parent():
    _LIBC.prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG


def _wait(command, report, quiet, **more):
    """Exit code of the command and the end of what it said on stderr, which is shown meanwhile."""
    said = collections.deque(maxlen=_LAST_LINES)
    # A session of its own: Ctrl-C reaches it through us alone, at a terminal and in a notebook.
    with subprocess.Popen(command, stdout=report, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL,
                          text=True, errors="replace", start_new_session=True,
                          preexec_fn=_end_with_parent, **more) as process:
        try:
            for line in process.stderr:
                said.append(line)
                if not quiet:
                    sys.stderr.write(line)
        except BaseException:
            process.send_signal(signal.SIGINT)
            process.communicate()
            raise
    return process.returncode, "".join(said).strip()
