"""Time and memory of a job before it runs: `prism-emulate --dry-run`, which takes milliseconds."""

import dataclasses
import json
import subprocess

from . import _install, _options
from .errors import UsageError, error_of


@dataclasses.dataclass(frozen=True)
class Forecast:
    """What `--dry-run` says. `rank` is the fullest one; `plan` is all of its JSON."""

    iteration_time_s: float
    rank: int
    device_bytes: int
    allocated_bytes: int
    reserved_bytes: int
    gpu_memory_bytes: int
    plan: dict = dataclasses.field(repr=False)


@dataclasses.dataclass(frozen=True)
class Fit:
    """True where the job fits; `rank` is the fullest one and `peak_bytes` what it takes of the
    `gpu_memory_bytes` of its GPU. Where no layout was found they are None, and `reason` says so."""

    fits: bool
    peak_bytes: "int | None"
    gpu_memory_bytes: "int | None"
    rank: "int | None"
    reason: str

    def __bool__(self) -> bool:
        return self.fits


def estimate(**options) -> Forecast:
    """The forecast for a job: estimate(model="llama3-70b", gpus=512, tp=8, pp=4). Keywords are the
    options of prism-emulate; what is left out is chosen as the program does."""
    command = [_install.program("prism-emulate"), "--dry-run", "--format", "json"]
    done = subprocess.run(command + _options.words(options), capture_output=True, text=True)
    if done.returncode != 0:
        raise error_of(done.returncode, done.stderr.strip())
    plan = json.loads(done.stdout)
    if "forecast" not in plan:
        raise UsageError("no forecast for this job: " + (done.stderr.strip() or "see --dry-run"))
    peak = plan["forecast"]["peak_memory"]
    return Forecast(plan["forecast"]["iteration_time_s"], peak["rank"], peak["device_bytes"],
                    peak["allocated_bytes"], peak["reserved_bytes"],
                    plan["forecast"]["gpu_memory_bytes"], plan)


def fits(**options) -> Fit:
    """Whether the job fits into its GPUs' memory, by the forecast."""
    try:
        forecast = estimate(**options)
    except UsageError as error:
        if "no layout of" not in str(error):
            raise
        return Fit(False, None, None, None, str(error))
    peak, room = forecast.device_bytes, forecast.gpu_memory_bytes
    return Fit(peak <= room, peak, room, forecast.rank,
               f"rank {forecast.rank} takes {peak / 2**30:.2f} of {room / 2**30:.2f} GiB")
