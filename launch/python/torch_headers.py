"""Headers of a release of torch, of its CUDA and NCCL, for building against it (wheel.py): from
PyPI, where nothing but their include folders is kept, or of an interpreter that has them."""

import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile

# Of what torch requires: the packages whose headers its own include.
_NEEDED = re.compile(r"nvidia-(cuda-runtime|cublas|cusparse|nccl)-cu1\d\s*(\([^)]*\)|==[^;\s]*)")
_TOOLKIT = re.compile(r"cuda-toolkit\[[^]]*\](==[^;\s]*)")


def _pip_download(folder, *requirements):
    command = [sys.executable, "-m", "pip", "download", "-q", "--only-binary=:all:",
               "--python-version", "3.12", "--platform", "manylinux_2_28_x86_64", "--platform",
               "manylinux_2_27_x86_64", "--platform", "manylinux2014_x86_64", "--platform",
               "manylinux1_x86_64", "--platform", "linux_x86_64", "-d", str(folder), *requirements]
    subprocess.run(command, check=True)


def _unpack(folder, site):
    """Keeps of all wheels in a folder the headers, what names versions, and libc10.so, by which the
    ABI of strings is known; returns what they require."""
    required = ""
    for wheel in sorted(folder.glob("*.whl")):
        with zipfile.ZipFile(wheel) as archive:
            for name in archive.namelist():
                if "/include/" in name or name in ("torch/version.py", "torch/lib/libc10.so"):
                    archive.extract(name, site)
                elif name.endswith(".dist-info/METADATA"):
                    required += archive.read(name).decode()
        wheel.unlink()
    return required


def site_packages(torch, cache):
    """The folder with torch/ and nvidia/: of an interpreter, or in the cache for a release."""
    if "/" in torch:
        where = "import importlib.util as u; print(u.find_spec('torch').origin)"
        output = subprocess.run([torch, "-c", where], check=True, capture_output=True, text=True)
        return pathlib.Path(output.stdout.strip()).parents[1]
    site = cache / torch
    if site.exists():
        return site
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache) as folder:
        part, wheels = pathlib.Path(folder) / "site", pathlib.Path(folder) / "wheels"
        print(f"package.sh: fetching the headers of torch {torch}", file=sys.stderr)
        _pip_download(wheels, "--no-deps", f"torch=={torch}")
        required = _unpack(wheels, part)
        names = [re.sub(r"[\s()]", "", match[0]) for match in _NEEDED.finditer(required)]
        names += [f"cuda-toolkit[cublas,cudart,cusparse]{match[1]}"
                  for match in _TOOLKIT.finditer(required)]
        _pip_download(wheels, *names)
        _unpack(wheels, part)
        shutil.move(part, site)
    return site


def describe(site):
    """(minor version, major version of CUDA, whether strings are the new ones, include folders)"""
    text = (site / "torch/version.py").read_text()
    version = re.search(r"__version__ = '(\d+\.\d+)", text)[1]
    cuda = re.search(r"cuda[^=\n]*= '(\d+)", text)[1]
    old = b"_ZN3c105ErrorC2ENS_14SourceLocationESs" in (site / "torch/lib/libc10.so").read_bytes()
    nvidia = sorted(str(folder) for folder in site.glob("nvidia/*/include"))
    return version, cuda, not old, [str(site / "torch/include"), *nvidia]
