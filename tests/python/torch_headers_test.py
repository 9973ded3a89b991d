"""A library of which only the names are kept links a program as the whole one does."""

import pathlib
import subprocess
import sys
import tempfile

source = pathlib.Path(sys.argv[1])
sys.path.insert(0, str(source / "launch/python"))
import torch_headers  # noqa: E402

LIBRARY = """
namespace named { int Function(int x) { return x; } thread_local int local = 1; int object = 2; }
static int Hidden() { return 3; }
int Calls() { return Hidden() + named::local; }
"""
PROGRAM = """
namespace named { int Function(int x); extern thread_local int local; extern int object; }
int main() { return named::Function(named::local) + named::object; }
"""


def names(library):
    listed = subprocess.run(["nm", "-D", "--defined-only", library], check=True,
                            capture_output=True, text=True).stdout
    return sorted(line.split()[-1] for line in listed.splitlines())


with tempfile.TemporaryDirectory() as folder:
    library, program = pathlib.Path(folder) / "libnamed.so", pathlib.Path(folder) / "program"
    for path, text, options in ((library, LIBRARY, ["-shared"]), (program, PROGRAM, ["-c"])):
        path.with_suffix(".cc").write_text(text)
        subprocess.run(["c++", "-fPIC", *options, path.with_suffix(".cc"), "-o", path], check=True)
    before = names(library)
    assert "_ZN5named8FunctionEi" in before and "_ZN5named5localE" in before, before
    torch_headers._write_names(library)
    assert names(library) == before, (before, names(library))
    subprocess.run(["c++", "-pie", "-x", "none", program, f"-L{folder}", "-lnamed", "-o",
                    program.with_suffix(".out")], check=True)
