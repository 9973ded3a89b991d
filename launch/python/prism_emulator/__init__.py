"""Prism from Python: run the ranks you care about of a job with thousands of GPUs on this machine.

    import prism_emulator as prism

    run = prism.run("train.py", gpus=1024, rank="stage:3")
    run.iteration_time_s, run.memory["device"], run.logs

    prism.estimate(model="llama3-70b", gpus=512, tp=8, pp=4).iteration_time_s
    prism.fits(model="llama3-70b", gpus=64, tp=8, pp=1)
    prism.check("train.py", gpus=64).sentence

Keywords are the options of prism-emulate, with underscores. Errors are PrismError, with exit_code.
prism.plans evaluates many plans in one call; pytest_plugin.py has the mark `prism` for tests.
"""

from . import plans
from .checks import Check, check
from .errors import FileError, GateError, JobError, MissingError, PrismError, UsageError
from .forecasts import Fit, Forecast, estimate, fits
from .runs import Run, run

__all__ = [
    "Check", "FileError", "Fit", "Forecast", "GateError", "JobError", "MissingError", "PrismError",
    "Run", "UsageError", "check", "estimate", "fits", "plans", "run",
]
