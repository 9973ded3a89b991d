"""The commands prism and prism-emulate of the wheel: the programs, told which interpreter is the
user's. Apart from the package, whose imports would take longer than this."""

import os
import sys

_PROGRAMS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "prism_emulator/_prism/bin")


def _become(name):
    os.environ.setdefault("PRISM_PYTHON", sys.executable)
    path = os.path.join(_PROGRAMS, name)
    try:
        os.execv(path, [path, *sys.argv[1:]])
    except OSError as error:
        sys.exit(f"{name}: {path} does not start: {error.strerror}; install the wheel again")


def prism():
    _become("prism")


def prism_emulate():
    _become("prism-emulate")
