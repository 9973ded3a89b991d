"""Conditions of sources, and which ranks of 8,192 they single out."""
import argparse
import importlib.util
import inspect
import os
import pathlib
import sys
import tempfile
import types
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
WORLD = 8192


def load():
    spec = importlib.util.spec_from_file_location(
        "rank_conditions", ROOT / "shim/rendezvous/rank_conditions.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Anything:
    """torch.distributed, a mesh, megatron's parallel_state: of rank 0."""

    def __getattr__(self, name):
        return lambda *rest, **named: [0, 0] if name == "get_coordinate" else 0

    def __getitem__(self, name):
        return self


def found(*lines, args=None):
    """(kind, rank) of what a function of these lines, which calls other ranks at its end, is told."""
    text = "import os\nR, W = int(os.environ['RANK']), int(os.environ['WORLD_SIZE'])\n"
    text += "def main(dist, mesh, args, step):\n    rank = dist.get_rank()\n"
    text += "".join(f"    {line}\n" for line in lines) + "    call()\n"
    told = set()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "program.py")
        pathlib.Path(path).write_text(text)
        conditions = load().RankConditions(WORLD, lambda file: file == path,
                                           lambda kind, rank, file, line: told.add((kind, rank)))
        module = types.ModuleType("program")
        module.call = lambda: conditions.see(inspect.currentframe().f_back)
        exec(compile(text, path, "exec"), vars(module))
        module.main(Anything(), Anything(), args, 3)
    return told - {("rank", 0), ("place", 0)}


class RankConditionsTest(unittest.TestCase):
    def setUp(self):
        os.environ.update(RANK="0", WORLD_SIZE=str(WORLD), LOCAL_RANK="0",
                          LOCAL_WORLD_SIZE="8")

    def test_ranks_in_the_job(self):
        for line, ranks in [
                ("x = rank % 97 == 5", {5}), ("if dist.get_rank() == 1234 and step == 7: pass", {1234}),
                ("x = 16 - R % 2", {1}), ("x = 3 if R // 4 == 700 else 4", {2800, 2801, 2802, 2803}),
                ("assert R in (36, 37) or step", {36, 37}), ("bad = R == W - 7", {8185}),
                ("x = os.environ['RANK'] == '43'", {43}), ("x = rank > 100", {101}),
                ("stage = R // (W // 4)\n    x = stage == 3", {2048, 4096, 6144})]:
            self.assertEqual(found(line), {("rank", rank) for rank in ranks}, line)

    def test_names_have_the_values_that_the_frame_gives_them(self):
        args = argparse.Namespace(odd=77)
        self.assertEqual(found("x = rank == args.odd", args=args), {("rank", 77)})
        self.assertEqual(found("x = rank == step + 40"), {("rank", 43)})

    def test_places_in_groups(self):
        for line in ["x = mesh['dp'].get_local_rank() == 6", "x = mesh.get_coordinate()[1] == 6",
                     "x = dist.get_rank(mesh) == 6", "x = mesh.get_data_parallel_rank() == 6"]:
            self.assertEqual(found(line), {("place", 6)}, line)

    def test_ranks_in_a_node_are_those_of_the_first(self):
        local = "int(os.environ['LOCAL_RANK'])"
        self.assertEqual(found(f"x = {local} == 6"), {("rank", 6)})
        self.assertEqual(found(f"local_rank = {local}\n    x = local_rank % 4 == 3"),
                         {("rank", 1), ("rank", 2), ("rank", 3)})
        self.assertEqual(found(f"x = {local} == 9"), set())

    def test_tables_by_rank(self):
        for line, told in [
                ("work = [1] * W\n    work[99] = 2\n    x = work[rank]", {("rank", 99)}),
                ("more = {5: 2, 7: 2}\n    x = more.get(rank, 1)", {("rank", 5), ("rank", 7)}),
                ("sizes = (3,) * 7 + (4,)\n    x = sizes[int(os.environ['LOCAL_RANK'])]", {("rank", 7)}),
                ("gpus = [0, 1, 2, 3]\n    x = gpus[int(os.environ['LOCAL_RANK'])]", set()),
                ("begins = list(range(0, 9 * W, 9))\n    x = begins[rank]", set()),
                ("parts = [object()] * W\n    x = parts[rank]", set())]:
            self.assertEqual(found(line), told, line)

    def test_a_name_may_get_its_value_after_the_first_call(self):
        self.assertEqual(found("call()", "x = rank == (odd := 5)", "call()", "y = rank == odd"),
                         {("rank", 5)})

    def test_what_is_not_a_rank_or_cannot_be_evaluated_is_left_out(self):
        for line in ["x = step == 5", "x = step % 7 == 3",
                     "x = rank == dist.lookup(step)", "x = R // 8 * 8 == R"]:
            self.assertEqual(found(line) - {("rank", 1)}, set(), line)

    def test_a_frame_keeps_no_local_for_it(self):
        freed = []
        Anything.__del__ = lambda self: freed.append(1)
        try:
            found("large = type(dist)()", "call()", "large = None", "assert args, 'kept'", args=freed)
        finally:
            del Anything.__del__


if __name__ == "__main__":
    unittest.main()
