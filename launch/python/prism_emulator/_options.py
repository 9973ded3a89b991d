"""Keyword arguments as options of prism-emulate, whose --help says which there are."""

import difflib
import functools
import os
import re
import subprocess

from . import _install
from .errors import MissingError, UsageError

_SHORT = {"gpus": "target_gpus", "rank": "sandbox_ranks", "ranks": "sandbox_ranks"}


@functools.lru_cache(maxsize=None)
def known() -> "dict[str, str]":
    """The options: their keywords, and what --help names as their value ("" for a switch)."""
    program = _install.program("prism-emulate")
    try:
        done = subprocess.run([program, "--help"], check=True, capture_output=True, text=True)
    except OSError as error:
        raise MissingError(f"{program} does not start: {error.strerror}") from error
    rows = re.findall(r"^  (?:--[a-z-]+, )?--([a-z-]+)((?: \S+)?)", done.stdout, re.MULTILINE)
    return {name.replace("-", "_"): value.strip() for name, value in rows}


def words(options: "dict[str, object]") -> "list[str]":
    """The options as words of a command line. UsageError for a keyword that is none."""
    result = []
    for keyword, value in options.items():
        name = _SHORT.get(keyword, keyword)
        if name not in known():
            near = difflib.get_close_matches(keyword, [*known(), *_SHORT], n=4, cutoff=0.5)
            raise UsageError(f"{keyword} is no option; " + (
                f"near it are {', '.join(near)}" if near else "prism-emulate --help lists them"))
        result += _option("--" + name.replace("_", "-"), known()[name], value)
    return result


def _option(flag, kind, value):
    if value is None or (value is False and kind != "on|off"):
        return []
    if value is True and kind != "on|off":
        return [flag]
    if flag == "--perturb" and isinstance(value, (list, tuple)):
        return [word for one in value for word in (flag, str(one))]
    if isinstance(value, bool):
        return [flag, "on" if value else "off"]
    if isinstance(value, (list, tuple, range)):
        return [flag, ",".join(str(one) for one in value)]
    return [flag, os.fspath(value) if isinstance(value, os.PathLike) else str(value)]
