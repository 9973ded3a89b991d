"""Pytest's mark: a test runs as one rank of a job, and its failure has its own traceback."""

import importlib.util
import os
import pathlib
import subprocess
import sys
import tempfile

for package in ("pytest", "torch"):
    if importlib.util.find_spec(package) is None:
        print(f"skipped: {sys.executable} has no {package}")
        sys.exit()

TESTS = '''
import pytest

@pytest.mark.prism(gpus=256, rank=5)
@pytest.mark.parametrize("expected", [256, 7])
def test_all_reduce(expected, tmp_path):
    import torch
    torch.distributed.init_process_group("nccl")
    assert torch.distributed.get_rank() == 5
    assert torch.distributed.get_world_size() == 256
    ones = torch.ones(4, device="cuda")
    torch.distributed.all_reduce(ones)
    assert ones.tolist() == [expected] * 4
'''


def check(*options):
    done = subprocess.run([sys.executable, "-m", "pytest", *options, "-rA", "test_ranks.py"],
                          cwd=folder, capture_output=True, text=True)
    print(done.stdout, done.stderr)
    assert done.returncode == 1
    assert "PASSED test_ranks.py::test_all_reduce[256]" in done.stdout
    assert "FAILED test_ranks.py::test_all_reduce[7]" in done.stdout
    assert "assert ones.tolist() == [expected] * 4" in done.stdout


with tempfile.TemporaryDirectory() as folder:
    (pathlib.Path(folder) / "test_ranks.py").write_text(TESTS)
    check("-p", "prism_emulator.pytest_plugin")

    # As pip installs the wheel: pytest finds the plugin by its entry point.
    installed = pathlib.Path(folder) / "prism_emulator-0.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Name: prism_emulator\nVersion: 0\n")
    (installed / "entry_points.txt").write_text(
        "[pytest11]\nprism = prism_emulator.pytest_plugin\n")
    os.environ["PYTHONPATH"] = f"{folder}{os.pathsep}{os.environ['PYTHONPATH']}"
    check()
assert "RANK" not in os.environ
