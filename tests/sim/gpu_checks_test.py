"""What the programs of experiments/gpu/ do with what they measure, without a GPU: how a time is taken
(on a GPU of a few lines), goals and exit codes, comparisons, parts that fail. Named argument: the folder
of the programs."""

import contextlib
import io
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import types
import unittest
from unittest import mock

sys.path.insert(0, sys.argv.pop(1))

import common  # noqa: E402
import holds  # noqa: E402
import hybrid  # noqa: E402
import kernel_times  # noqa: E402
import stage  # noqa: E402
import virtual_truth  # noqa: E402

MACHINE = {"gpu": "GPU of the test", "compute": [9, 0]}


class Clock:
    """A host that queues and a device that works the queue off, in seconds since the start."""

    def __init__(self):
        self.host = self.device = 0.0

    def enqueue(self, seconds):
        self.device = max(self.device, self.host) + seconds


def fake_torch(clock):
    class Event:
        def __init__(self, enable_timing):
            assert enable_timing

        def record(self):
            clock.enqueue(0)
            self.time = clock.device

        def query(self):
            return self.time <= clock.host

        def synchronize(self):
            clock.host = max(clock.host, self.time)

        def elapsed_time(self, end):
            return (end.time - self.time) * 1e3

    def synchronize():
        clock.host = max(clock.host, clock.device)

    cuda = types.SimpleNamespace(
        Event=Event, synchronize=synchronize,
        _sleep=lambda cycles: clock.enqueue(cycles / common.CYCLES_PER_S))
    return types.SimpleNamespace(cuda=cuda)


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def arguments(self, **named):
        return types.SimpleNamespace(out=self.folder / "result.json", again=False, build=self.folder,
                                     root=self.folder, **named)

    def results(self, parts=None, **named):
        results = common.Results(self.arguments(**named), None)
        results.content = {"machine": MACHINE, "seconds": {}, "parts": parts or {}}
        return results

    def finish(self, results, goals):
        with contextlib.redirect_stdout(io.StringIO()) as said, self.assertRaises(SystemExit) as left:
            results.finish(goals)
        return int(left.exception.code), said.getvalue()


class Times(unittest.TestCase):
    def measure(self, call):
        clock = Clock()
        with mock.patch.dict(sys.modules, torch=fake_torch(clock)):
            return common.device_seconds(lambda: call(clock))

    def test_a_kernel_shorter_than_its_issue_has_its_own_time(self):
        def call(clock):
            clock.host += 2e-3  # more than the first pause: it has to grow
            clock.enqueue(5e-6)
        self.assertAlmostEqual(self.measure(call)["p50"], 5e-6)

    def test_a_long_kernel_has_its_own_time(self):
        def call(clock):
            clock.host += 8e-6
            clock.enqueue(3e-3)
        self.assertAlmostEqual(self.measure(call)["max"], 3e-3)

    def test_a_call_that_waits_for_the_device_is_refused(self):
        def call(clock):
            clock.enqueue(5e-6)
            clock.host = max(clock.host, clock.device)
        with self.assertRaisesRegex(RuntimeError, "waits"):
            self.measure(call)


class Goals(Case):
    def test_exit_codes_tell_met_missed_and_not_measured_apart(self):
        met, missed, absent = (common.goal("error, us", value, 2) for value in (2, 2.5, None))
        self.assertEqual(self.finish(self.results(), [met]), (0, "  met: error, us: 2, at most 2\n"))
        code, said = self.finish(self.results(), [met, missed])
        self.assertEqual(code, 4)
        self.assertIn("missed: error, us: 2.5, at most 2\n", said)
        code, said = self.finish(self.results(), [missed, absent])
        self.assertEqual(code, 1)
        self.assertIn("not measured: error, us: at most 2\n", said)
        self.assertEqual(self.finish(self.results({"a": {"failed": "so"}}), [met])[0], 1)
        written = json.loads((self.folder / "result.json").read_text())
        self.assertEqual([row["met"] for row in written["goals"]], [True])

    def test_not_a_number_meets_nothing(self):
        self.assertFalse(common.goal("share", float("nan"), 1)["met"])

    def test_holds_beyond_their_goals_are_missed(self):
        good = {"p50": -1.0, "p99": 4.0, "absolute": {"p50": 1.0, "p99": 4.0}}
        parts = {"injection_error_us by kernel": {f"{us} us": good for us in holds.LENGTHS_US},
                 "graph": {"captured": True, "error_us": [1.0]}, "abort": {"unblocked_after_us": 9.0},
                 "profiler": ["prism_hold_allreduce"],
                 "occupancy": {f"{n} blocks": {"hold_by_copy": 0.96} for n in holds.BLOCKS}}
        rows = lambda: {row["goal"]: row["met"] for row in holds.goals(self.results(parts))}
        self.assertEqual(set(rows().values()), {True})
        early = {"p50": -2.1, "p99": -1.0, "absolute": {"p50": 2.1, "p99": 5.1}}
        parts["injection_error_us by kernel"]["10 us"] = early
        parts["occupancy"]["8 blocks"] = {"hold_by_copy": 1.06}
        parts["profiler"] = []
        parts["graph"] = {"captured": False, "error_us": [1.0]}
        changed = rows()
        self.assertEqual(list(changed.values()).count(False), 4)
        self.assertEqual(list(changed.values()).count(None), 1)
        parts["graph"] = {"captured": True, "error_us": [1.0, -6.0]}
        self.assertFalse(rows()["holds in a CUDA graph: largest error, us"])

    def test_runs_with_virtual_peers_are_held_against_replays(self):
        run = {"iteration_time_s": 1.009, "replayed_s": 1.0, "scale": 3.0, "device_scale": 3.0,
               "warnings": [], "said": {"rank0": ["profiler: prism_hold_allreduce", "went on"]}}
        counted = {**run, "said": {f"rank{r}": ["675 results, 0 wrong []"] for r in range(4)}}
        shared = {**run, "iteration_time_s": 1.0, "warnings": [{"code": "gpu_shared"}]}
        parts = {name: run for name in hybrid.RUNS} | {
            "two_ranks_on_one_gpu": shared, "values_of_four_ranks": counted,
            "values_under_mpirun": counted}
        rows = lambda: [row["met"] for row in hybrid.goals(self.results(parts))]
        self.assertEqual(set(rows()), {True})
        wrong = {**counted["said"], "rank2": ["675 results, 3 wrong ['all_reduce']"]}
        parts["values_of_four_ranks"] = {**counted, "said": wrong}
        parts["late_rank"] = {**run, "iteration_time_s": 1.02}
        parts["two_ranks_on_one_gpu"] = {**shared, "warnings": []}
        parts["profiled"] = {**run, "said": {"rank0": ["profiler:"]}}
        self.assertEqual(rows().count(False), 4)
        del wrong["rank2"][0]
        self.assertIn(None, rows())


class Parts(Case):
    def test_what_fails_is_written_and_keeps_nothing_from_running(self):
        results = self.results()
        with contextlib.redirect_stdout(io.StringIO()):
            self.assertIsNone(results.add("first", lambda: {}["absent"]))
            self.assertEqual(results.add("second", lambda: 7), 7)
        written = json.loads((self.folder / "result.json").read_text())["parts"]
        self.assertIn("KeyError", written["first"]["failed"])
        self.assertEqual(written["second"], 7)

    def test_a_part_that_takes_too_long_leaves_the_last_calls_in_order(self):
        def slow():
            file = self.folder / "result.calls.7"
            file.write_text("201 cudaFree -   \n2 cudaMalloc 0   \n" + "\0" * 50)
            time.sleep(30)

        results = common.Results(self.arguments(), MACHINE)
        with mock.patch.object(common, "PART_S", 0.2), mock.patch.object(
                common, "device_lost", lambda: False), contextlib.redirect_stdout(io.StringIO()):
            self.assertIsNone(results.add("a/b c", slow))
            self.assertEqual(results.add("next", lambda: 7), 7)
        self.assertIn("a/b c takes longer than 0.2 s", results.content["parts"]["a/b c"]["failed"])
        kept = (self.folder / "result.a_b_c.0.last_calls").read_text()
        self.assertEqual(kept, "2 cudaMalloc 0\n201 cudaFree -\n")
        self.assertFalse((self.folder / "result.calls.7").exists())

    def test_a_part_in_a_call_that_hangs_leaves_its_stacks_and_the_rest_to_another_process(self):
        code = f"""
import pathlib, signal, sys, time, types
sys.path.insert(0, {str(pathlib.Path(common.__file__).parent)!r})
import common
common.PART_S, common.RETURNS_S = 0.1, 0.2
args = types.SimpleNamespace(out=pathlib.Path({str(self.folder)!r}) / "result.json", again=False)
def hangs():
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM])
    time.sleep(60)
common.Results(args, {MACHINE!r}).add("stuck", hangs)
"""
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=50,
                              check=False)
        self.assertEqual(done.returncode, common.DEVICE_LOST, done.stderr)
        self.assertIn("in hangs", done.stderr)
        parts = json.loads((self.folder / "result.json").read_text())["parts"]
        self.assertIn("a call hangs", parts["stuck"]["failed"])

    def test_the_virtual_half_goes_on_without_prism_and_without_a_real_half(self):
        real = {"kernels": [], "allocator": [], "step_seconds": [1.0]}
        (self.folder / "result.json").write_text(json.dumps(
            {"machine": {"gpu": "unknown", "compute": [6, 0]}, "seconds": {},
             "parts": {"gpt3-13b eager": real, "gpt3-175b eager": real}}))
        args = self.arguments()
        with contextlib.redirect_stdout(io.StringIO()) as said, self.assertRaises(SystemExit) as left:
            virtual_truth.complete(args, common.Results(args, None))
        self.assertEqual(left.exception.code, 1)
        self.assertIn("gpt3-1.3b eager: no real half", said.getvalue())
        parts = json.loads((self.folder / "result.json").read_text())["parts"]
        for name in ("compared gpt3-13b eager", "compared gpt3-175b eager"):
            self.assertIn("KeyError", parts[name]["failed"])

    def test_inductor_finds_no_results_of_another_program(self):
        code = "import os; print(os.environ['TORCHINDUCTOR_CACHE_DIR'])"
        said = virtual_truth.checked([sys.executable, "-c", code], 60, self.folder)
        self.assertTrue(said.startswith(str(self.folder)), said)

    def test_the_stand_in_is_under_programs_but_not_under_prism(self):
        code = "import os; print(os.environ.get('LD_PRELOAD', 'none'))"
        with mock.patch.dict(os.environ, LD_PRELOAD="libc.so.6"):
            said = [virtual_truth.checked([*launcher, sys.executable, "-c", code], 60, self.folder)
                    for launcher in (["env"], [])]
        self.assertEqual(said, ["none\n", "libc.so.6\n"])

    def test_a_command_that_fails_is_told_with_what_it_said(self):
        with self.assertRaisesRegex(RuntimeError, "ends with 3: so it is"):
            virtual_truth.checked([sys.executable, "-c", "print('so it is'); raise SystemExit(3)"], 60,
                                  self.folder)


class Comparison(unittest.TestCase):
    def side(self, seconds):
        kernels = [{"name": f"void kernel_{i}(float*)", "grid": [i, 1, 1]} for i in range(4)]
        return {"kernels": kernels + [{"name": "nvjet_gemm", "grid": [1, 1, 1]}],
                "products": ["aten::mm 2x3 3x4", "aten::bmm 8x2x3 8x3x4"], "allocator": [["alloc", 512, 0, 0]], "peak_allocated": 100, "peak_reserved": 200,
                "device_bytes": 1000, "step_seconds": seconds}

    def met(self, real, virtual):
        found = virtual_truth.compare(real, virtual)
        return {row["goal"].split(": ")[1]: row["met"] for row in virtual_truth.goals("job", found)}

    def test_equal_sides_meet_every_goal(self):
        predicted = {how: 1.02 for how in virtual_truth.PREDICTIONS}
        virtual = self.side(predicted)
        virtual["kernels"] = virtual["kernels"][2:] + virtual["kernels"][:2]  # begins elsewhere
        virtual["kernels"].append({"name": "cutlass_other", "grid": [9, 9, 9]})
        virtual["products"].reverse()
        self.assertEqual(set(self.met(self.side([1.0] * 10), virtual).values()), {True})

    def test_each_difference_misses_its_goal(self):
        virtual = self.side({how: 1.04 for how in virtual_truth.PREDICTIONS})
        virtual["kernels"][1] = {"name": "void other(float*)", "grid": [1, 1, 1]}
        virtual["allocator"] = [["alloc", 1024, 0, 0]]
        virtual["products"] = ["aten::mm 2x3 3x8", "aten::bmm 8x2x3 8x3x4"]
        virtual |= {"peak_allocated": 101, "peak_reserved": 202, "device_bytes": 1011}
        self.assertEqual(set(self.met(self.side([1.0] * 10), virtual).values()), {False})

    def test_products_read_alike_from_a_profile_and_from_a_graph(self):
        text = "kernel cublasLtMatmul 6x2x4 batch 1 tn bfloat16 (aten::addmm [6] bfloat16, [2,4] bfloat16, " \
               "[4,6] bfloat16) on stream 0"
        self.assertEqual(virtual_truth.product({"text": text}),
                         stage.product("aten::addmm", [[6], [2, 4], [4, 6], [], []]))
        self.assertEqual(virtual_truth.product({"text": "kernel void f(aten::mm [2]) on stream 0"}), "")

    def test_what_was_not_compared_is_not_measured(self):
        self.assertEqual({row["met"] for row in virtual_truth.goals("job", {})}, {None})


class Kernels(Case):
    def test_the_table_has_the_attention_that_torch_chooses_and_no_copies(self):
        time = common.spread([2e-5])
        row = {"backend": "CUDNN_ATTENTION", "forward": time, "backward": time}
        parts = {"attention": {"CHOSEN 1024": row, "CUDNN_ATTENTION 1024": row,
                               "FLASH_ATTENTION 1024": "refused"},
                 "ops 2048": {op: time for op in kernel_times.OPS}, "ops 4096": {"failed": "so"},
                 "products tf32": [{"m": 8, "n": 16, "k": 32, "seconds": time}]}
        lines = kernel_times.kernel_table(parts, "test").splitlines()
        self.assertEqual([line.split(",")[0] for line in lines],
                         ["kind", "attention", "native_layer_norm", "gelu", "add", "_softmax", "matmul"])
        self.assertEqual(lines[1], "attention,bfloat16,1024,1024,128,16,2e-05,test")

    def test_what_is_compiled_has_shapes_of_its_own(self):
        import torch
        shapes = []

        def look(graph, inputs):
            shapes.extend(tuple(x.shape) if isinstance(x, torch.Tensor) else x for x in inputs)
            return graph.forward
        compile_ = torch.compile
        with (mock.patch("torch.compile", lambda call, **named: compile_(call, backend=look, **named)),
              mock.patch("common.device_seconds", lambda call: call() is None)):
            layer = torch.nn.Linear(64, 64)
            for length in (16, 32):
                kernel_times.both(layer, layer, torch.randn(2, 64), torch.randn(length, 64))
        for shape in shapes:
            self.assertTrue(all(type(size) is int for size in shape), shapes)
        self.assertEqual([shape[0] for shape in shapes if shape != (64, 64) and shape != (64,)],
                         [2, 16, 2, 32])

    def test_what_differs_from_eager_has_no_compiled_time(self):
        import torch
        with (mock.patch("torch.compile", lambda call, **_: lambda x: call(x) * 1.001),
              mock.patch("common.device_seconds", lambda call: 1)):
            row = kernel_times.both(torch.sin, torch.sin, torch.ones(4), torch.ones(4))
        self.assertNotIn("compiled", row)
        results = self.results({"layers 2048": {"mlp": row}})
        said = {goal["goal"]: goal["met"] for goal in kernel_times.goals(results)}
        self.assertIs(said["layers 2048, mlp: compiled differs from eager by"], False)
        self.assertIsNone(said["layers 8192, mlp: compiled differs from eager by"])


if __name__ == "__main__":
    unittest.main()
