"""The wheel: its files need no newer system than its tag says and nothing of the machine that built
it, the same files give the same bytes, and its commands start from where pip puts them."""

import base64
import hashlib
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import zipfile

source, python = pathlib.Path(sys.argv[1]), sys.argv[2]
sys.path.insert(0, str(source / "launch/python"))
import wheel  # noqa: E402

subprocess.run([sys.executable, source / "launch/python/wheel.py", "--torch", python], check=True)
[path] = (source / "dist").glob(f"prism_emulator-{wheel.version()}-*.whl")
assert path.stat().st_size < 40 << 20
tag = re.search(r"-py3-none-manylinux_2_(\d+)_x86_64[.]whl$", path.name)
assert tag and int(tag[1]) <= 34

# Libraries that every Linux has, those of torch, and our own.
SYSTEM = re.compile(r"(libc|libm|libdl|libpthread|librt)[.]so[.]\d|ld-linux-x86-64[.]so[.]2|"
                    r"lib(torch\w*|c10\w*)[.]so|libprism_\w+[.]so|libprotobuf-lite[.]so[.]\d+")
RUNTIME = re.compile(r"libstdc[+][+][.]so[.]6|libgcc_s[.]so[.]1")  # of what is loaded beside torch

with tempfile.TemporaryDirectory() as folder:
    with zipfile.ZipFile(path) as archive:
        archive.extractall(folder)
        names = archive.namelist()
    root = pathlib.Path(folder)
    elves = [name for name in names if (root / name).read_bytes()[:4] == b"\x7fELF"]
    assert len(elves) >= 9, elves
    for name in elves:
        text = subprocess.run(["readelf", "-W", "-V", "-d", root / name], check=True,
                              capture_output=True, text=True).stdout
        versions = re.findall(r"Name: (GLIBC|GLIBCXX)_([\d.]+)", text)
        for kind, version in versions:
            newest = (2, int(tag[1])) if kind == "GLIBC" else (3, 4, 29)
            assert tuple(map(int, version.split("."))) <= newest, (name, kind, version)
        beside_torch = "/torch-" in name or "protobuf" in name
        for library in re.findall(r"\(NEEDED\).*\[(.*)\]", text):
            assert SYSTEM.fullmatch(library) or (beside_torch and RUNTIME.fullmatch(library)), (
                name, library)
        assert str(source).encode() not in re.sub(
            rb"[^\0]+[.](cc|h)(?=\0)", b"", (root / name).read_bytes()), name

    # RECORD lists every file, and the bytes are those of the files alone.
    [record] = root.glob("*.dist-info/RECORD")
    for line in record.read_text().splitlines():
        name, digest, _ = line.rsplit(",", 2)
        names.remove(name)
        if digest:
            found = base64.urlsafe_b64encode(hashlib.sha256((root / name).read_bytes()).digest())
            assert digest == "sha256=" + found.rstrip(b"=").decode(), name
    assert not names, names
    again = root / "again.whl"
    wheel.write_wheel(root / "prism_emulator", again, path.name.split("-", 2)[2][:-len(".whl")])
    assert again.read_bytes() == path.read_bytes()

    # Installed by pip, elsewhere and read-only.
    site = root / "site"
    subprocess.run([sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-index",
                    "--target", site, path], check=True)
    environment = {**os.environ, "PYTHONPATH": str(site)}
    start = time.monotonic()
    done = subprocess.run([site / "bin/prism-emulate", "--version"], env=environment, check=True,
                          capture_output=True, text=True)
    print(f"{done.stdout.strip()}, {1000 * (time.monotonic() - start):.0f} ms")
    assert wheel.version() in done.stdout
    done = subprocess.run([sys.executable, "-c", "import prism_emulator as prism; print("
                           "prism.estimate(model='llama3-8b', gpus=64).iteration_time_s)"],
                          env=environment, check=True, capture_output=True, text=True)
    assert float(done.stdout) > 0

    # A file that needs more is refused.
    wheel.NEWEST_GLIBC = (2, 2, 5)
    try:
        wheel.check(root / elves[0], elves[0])
    except SystemExit as refusal:
        assert "needs GLIBC_" in str(refusal)
    else:
        raise AssertionError("taken")
