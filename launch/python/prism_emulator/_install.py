"""Where the programs are: in an installed package, or in the build folder around this one."""

import pathlib

_HERE = pathlib.Path(__file__).resolve().parent
ROOT = _HERE / "_prism" if (_HERE / "_prism").is_dir() else _HERE.parents[1]


def program(name: str) -> str:
    """The path of one of Prism's programs."""
    return str(ROOT / "bin" / name)
