"""Writes the wheel from a finished build (package.sh): the package, the programs and libraries,
what is built for each torch, and the sources from which that is built for any other.

The same inputs give the same bytes. Refused is a file that needs more than the tag promises.
"""

import argparse
import base64
import concurrent.futures
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile

import torch_headers

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = ROOT / "build"
NEWEST_GLIBC = (2, 34)
NEWEST_GLIBCXX = (3, 4, 29)  # of the C++ library in the process of a user's torch
RELEASES = "2.6.0 2.7.1 2.8.0 2.9.1 2.10.0 2.11.0 2.12.0 2.13.0 2.14.0 2.15.0".split()
TORCH_FILES = ["libprism_observer.so", "libprism_rendezvous.so", "prism-workload"]
PROGRAMS = ["bin/prism", "bin/prism-emulate", "bin/prism-published"]
LIBRARIES = ["lib/libprism_shim.so", "lib/libprism_plan.so", "lib/prism/bin/nvidia-smi",
             "lib/prism/python/sitecustomize.py"]
GPU_LIBRARIES = ["lib/libprism_device.so", "lib/prism-cuda/*"]  # of a build with nvcc
GPU_TARGET = "prism_device_facades"
TARGETS = ["prism", "prism-emulate", "prism-published", "prism_plan", "prism_shim",
           "prism_nvidia_smi"]
SOURCES = ["launch/process/build_for_torch.sh", "launch/process/torch_sources.txt",
           "shim/rendezvous/absent_ranks_source.sh", "shim/rendezvous/absent_ranks.py",
           "shim/rendezvous/rank_conditions.py", "shim/rendezvous/threads.py"]
ENTRY_POINTS = """[console_scripts]
prism = prism_emulator_start:prism
prism-emulate = prism_emulator_start:prism_emulate

[pytest11]
prism = prism_emulator.pytest_plugin
"""


def version():
    text = (ROOT / "CMakeLists.txt").read_text()
    return re.search(r"project\(prism VERSION ([\d.]+)", text)[1]


def needed_versions(path, name):
    """The versions of a library's names, such as GLIBC_2.34, that a file needs."""
    done = subprocess.run(["objdump", "-p", path], check=True, capture_output=True, text=True)
    references = done.stdout.partition("Version References:")[2]
    found = re.findall(rf"\b{name}_([\d.]+)$", references, re.MULTILINE)
    return {tuple(int(part) for part in version.split(".")) for version in found}


def check(path, name):
    for library, newest in (("GLIBC", NEWEST_GLIBC), ("GLIBCXX", NEWEST_GLIBCXX)):
        beyond = [version for version in needed_versions(path, library) if version > newest]
        if beyond:
            text = ".".join(map(str, max(beyond)))
            sys.exit(f"package.sh: {name} needs {library}_{text}, later than the tag of the wheel "
                     f"promises; objdump -T {path} shows for which name")


def add_binary(tree, source, name):
    """A program or library without its symbols; anything else as it is."""
    target = tree / name
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)
    if target.read_bytes()[:4] == b"\x7fELF":
        subprocess.run(["strip", "--strip-unneeded", target], check=True)
        check(target, name)
        target.chmod(0o755)


def add_programs(tree):
    for pattern in PROGRAMS + LIBRARIES + GPU_LIBRARIES:
        files = sorted(BUILD.glob(pattern))
        if not files and pattern not in GPU_LIBRARIES:
            sys.exit(f"package.sh: {BUILD / pattern} is missing; run ninja -C build")
        for file in files:
            add_binary(tree, file, f"_prism/{file.relative_to(BUILD)}")
    protobuf = subprocess.run(["ldd", BUILD / "lib/libprism_plan.so"], check=True,
                              capture_output=True, text=True).stdout
    path = re.search(r"libprotobuf-lite\S+ => (\S+)", protobuf)[1]
    add_binary(tree, path, f"_prism/lib/{re.search(r'libprotobuf-lite[.]so[.][0-9]+', path)[0]}")


def add_sources(tree):
    """What launch/process/build_for_torch.sh reads."""
    target = tree / "_prism/src"
    listed = re.findall(r"^[^#\s]\S* (\S+)$", (ROOT / SOURCES[1]).read_text(), re.MULTILINE)
    headers = [file.relative_to(ROOT).as_posix() for folder in ("graph", "shim", "launch")
               for file in (ROOT / folder).rglob("*.h*") if file.suffix in (".h", ".hpp")]
    for name in {*SOURCES, *listed, *headers}:
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, target / name)
    shutil.copytree(BUILD / "src/third_party/fmt", target / "third_party/fmt")


def digest_of(folder):
    digest = hashlib.sha256()
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        digest.update(f"{path.relative_to(folder)} {path.stat().st_size}\n".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def add_torch(tree, torch):
    """What needs libtorch's headers, for one release; kept until a source or that torch changes."""
    site = torch_headers.site_packages(torch, BUILD / "torch-headers")
    minor, cuda, new_strings, includes = torch_headers.describe(site)
    name = f"torch-{minor}-cu{cuda}{'' if new_strings else '-oldabi'}"
    source = tree / "_prism/src"
    text = (site / "torch/version.py").read_bytes()
    key = hashlib.sha256(digest_of(source).encode() + text).hexdigest()[:16]
    built = BUILD / "torch-parts" / f"{name}-{key}"
    if not built.exists():
        print(f"package.sh: building for torch {minor} (CUDA {cuda})", file=sys.stderr)
        built.parent.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(dir=built.parent) as folder:
            part = os.path.join(folder, name)
            os.mkdir(part)
            command = ["/bin/sh", source / SOURCES[0], part, "1" if new_strings else "0",
                       ":".join(includes), *TORCH_FILES]
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode != 0:
                sys.exit(f"package.sh: building for torch {torch} failed:\n{done.stderr}")
            os.replace(part, built)
    for file in TORCH_FILES:
        add_binary(tree, built / file, f"_prism/lib/{name}/{file}")


def write_wheel(tree, target, tag):
    """`tree` has the package's files; those of its metadata are made here."""
    info = f"prism_emulator-{version()}.dist-info"
    files = {f"prism_emulator/{path.relative_to(tree).as_posix()}": (path.read_bytes(), path)
             for path in tree.rglob("*") if path.is_file()}
    readme = (ROOT / "launch/python/README.md").read_text().replace("# launch/python:", "#", 1)
    made = {
        f"{info}/METADATA": "Metadata-Version: 2.1\nName: prism-emulator\n"
                            f"Version: {version()}\nSummary: Runs the ranks you care about of a "
                            "training job with thousands of GPUs on one machine\n"
                            "Requires-Python: >=3.10\nDescription-Content-Type: text/markdown\n\n"
                            + readme,
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: package.sh\nRoot-Is-Purelib: false\n"
                         f"Tag: {tag}\n",
        f"{info}/entry_points.txt": ENTRY_POINTS,
        "prism_emulator_start.py": (ROOT / "launch/python/prism_emulator_start.py").read_text()}
    files.update({name: (text.encode(), None) for name, text in made.items()})
    record = ""
    part = target.with_suffix(".part")
    with zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        def add(name, data, is_program=False):
            entry = zipfile.ZipInfo(name)  # with the same date for all
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = (0o100755 if is_program else 0o100644) << 16
            archive.writestr(entry, data)

        for name, (data, path) in sorted(files.items()):
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            record += f"{name},sha256={digest},{len(data)}\n"
            add(name, data, data[:4] == b"\x7fELF")
        add(f"{info}/RECORD", record + f"{info}/RECORD,,\n")
    os.replace(part, target)


def main():
    parser = argparse.ArgumentParser(prog="package.sh", description=__doc__)
    parser.add_argument("--torch", metavar="LIST", default=",".join(RELEASES),
                        help="releases of torch, or interpreters that have one, joined by commas "
                        "[%(default)s]")
    arguments = parser.parse_args()
    has_gpu = f"build {GPU_TARGET}:" in (BUILD / "build.ninja").read_text()
    targets = TARGETS + [GPU_TARGET] * has_gpu
    subprocess.run(["ninja", "-C", BUILD, "--quiet", *targets], check=True)
    tag = f"py3-none-manylinux_{'_'.join(map(str, NEWEST_GLIBC))}_x86_64"
    target = ROOT / "dist" / f"prism_emulator-{version()}-{tag}.whl"
    target.parent.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        tree = pathlib.Path(folder) / "prism_emulator"
        shutil.copytree(ROOT / "launch/python/prism_emulator", tree,
                        ignore=shutil.ignore_patterns("__pycache__"))
        add_programs(tree)
        add_sources(tree)
        workers = max(1, (os.cpu_count() or 1) // 2)
        with concurrent.futures.ThreadPoolExecutor(workers) as pool:
            list(pool.map(lambda torch: add_torch(tree, torch), arguments.torch.split(",")))
        write_wheel(tree, target, tag)
    print(f"{target.relative_to(ROOT)}: {target.stat().st_size / 2**20:.1f} MiB")


if __name__ == "__main__":
    main()
