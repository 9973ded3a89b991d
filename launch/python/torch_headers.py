"""Headers of a release of torch, of its CUDA and NCCL, for building against it (wheel.py): from
PyPI, where nothing but their include folders is kept, and of the libraries that a program is
linked with the names alone; or of an interpreter that has them."""

import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile

# Of what torch requires: the packages whose headers its own include.
_NEEDED = re.compile(r"nvidia-(cuda-runtime|cublas|cusolver|cusparse|nccl)-cu1\d\s*"
                     r"(\([^)]*\)|==[^;\s]*)")
_KEPT = ["torch/version.py", "torch/lib/libc10.so"]
_LINKED = [f"torch/lib/lib{name}.so" for name in ("torch_cpu", "torch_cuda", "c10_cuda")]
_TOOLKIT = re.compile(r"cuda-toolkit\[[^]]*\](==[^;\s]*)")


def _pip_download(folder, *requirements):
    command = [sys.executable, "-m", "pip", "download", "-q", "--only-binary=:all:",
               "--python-version", "3.12", "--platform", "manylinux_2_28_x86_64", "--platform",
               "manylinux_2_27_x86_64", "--platform", "manylinux2014_x86_64", "--platform",
               "manylinux1_x86_64", "--platform", "linux_x86_64", "-d", str(folder), *requirements]
    subprocess.run(command, check=True)


def _write_names(library):
    """Puts in place of a library one that defines the same names and does nothing."""
    listed = subprocess.run(["readelf", "--dyn-syms", "-W", library], check=True,
                            capture_output=True, text=True).stdout
    sections = {"FUNC": ".text", "IFUNC": ".text", "TLS": '.tbss,"awT",@nobits'}
    source = library.with_suffix(".s")
    with source.open("w") as out:
        for line in listed.splitlines():
            number, _, _, kind, _, _, section, name = (line.split() + [""] * 8)[:8]
            if number[:-1].isdigit() and section.isdigit() and "@" not in name:
                symbol_type = {"TLS": "tls_object", "OBJECT": "object"}.get(kind, "function")
                out.write(f".section {sections.get(kind, '.data')}\n.globl {name}\n"
                          f".type {name},@{symbol_type}\n{name}: .zero 1\n")
    subprocess.run(["cc", "-shared", "-nostdlib", f"-Wl,-soname,{library.name}", "-o", library,
                    source], check=True)
    source.unlink()


def _unpack(folder, site):
    """Keeps of all wheels in a folder the headers, what names versions, libc10.so, by which the
    ABI of strings is known, and the names of torch's libraries; returns what they require."""
    required = ""
    for wheel in sorted(folder.glob("*.whl")):
        with zipfile.ZipFile(wheel) as archive:
            for name in archive.namelist():
                if "/include/" in name or name in _KEPT or name in _LINKED:
                    archive.extract(name, site)
                if name in _LINKED:
                    _write_names(site / name)
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
        names += [f"cuda-toolkit[cublas,cudart,cusolver,cusparse]{match[1]}"
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
