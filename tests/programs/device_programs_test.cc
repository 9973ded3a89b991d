// Ordinary Python programs on the virtual device, without launcher: what they print, what they
// issue and what it costs in memory. The programs know nothing of the shim.
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/recorded_program.h"

namespace prism::testing {
namespace {

using channel::RecordKind;
using ::testing::HasSubstr;

constexpr int64_t kMiB = int64_t{1} << 20;

ProgramRun RunProgram(const std::string& program,
                      std::vector<std::pair<std::string, std::string>> environment = {},
                      const channel::Config& config = H100Config()) {
  environment.emplace_back("PYTHONWARNINGS", "ignore");
  environment.emplace_back("TORCHINDUCTOR_CACHE_DIR", PRISM_PROGRAM_CACHE);
  environment.emplace_back("TRITON_CACHE_DIR", PRISM_PROGRAM_CACHE);
  const ProgramRun run = RunRecorded(
      {.arguments = {PRISM_PYTHON, std::string(PRISM_PROGRAM_DIR) + "/" + program + ".py"},
       .environment = std::move(environment),
       .library_dir = PRISM_LIBRARY_DIR,
       .config = config});
  EXPECT_EQ(run.exit_code, 0) << run.output;
  return run;
}

// The ops after the last begin of a range.
ProgramRun LastOf(const ProgramRun& run, const std::string& range) {
  ProgramRun last;
  for (const IssuedOp& op : run.ops) {
    if (op.kind == RecordKind::kMarker && op.name == range && op.record.marker.begin != 0) {
      last.ops.clear();
    }
    last.ops.push_back(op);
  }
  return last;
}

ProgramRun LastIteration(const ProgramRun& run) {
  return LastOf(run, "iteration");
}

TEST(DevicePrograms, attention_goes_through_every_back_end) {
  const ProgramRun run = RunProgram("attention");
  EXPECT_EQ(run.Said("default"), "ScaledDotProductCudnnAttentionBackward0");
  const std::string shape = "[2,8,1024,128] bfloat16";
  // Once by default and once by choice; the shapes are what a cost rule needs.
  EXPECT_EQ(run.CountKernels("cudnnBackendExecute", "aten::_cudnn_attention_forward " + shape), 2);
  EXPECT_EQ(run.CountKernels("cudnnBackendExecute", "aten::_cudnn_attention_backward " + shape), 1);
  // The same shapes, as callers without framework ops get them from cuDNN's operation graph.
  EXPECT_THAT(
      run.contexts,
      ::testing::IsSupersetOf(
          {::testing::StartsWith("cudnn::scaled_dot_product_attention " + shape),
           ::testing::StartsWith("cudnn::scaled_dot_product_attention_backward " + shape)}));
  EXPECT_EQ(run.CountKernels("flash_fwd_kernel"), 1);
  EXPECT_GE(run.CountKernels("flash_bwd"), 1);
  EXPECT_GE(run.CountKernels("fmha_cutlassF"), 1);
  EXPECT_GE(run.CountKernels("fmha_cutlassB"), 1);
  // q, k, v, output and its gradient, three gradients: 4 MiB each; softmax statistics 64 KiB and
  // cuDNN's workspace, which the front end computes.
  EXPECT_EQ(run.Said("CUDNN_ATTENTION"), "ScaledDotProductCudnnAttentionBackward0 42075136");
  EXPECT_THAT(run.Said("MATH"), HasSubstr("381681664"));
}

TEST(DevicePrograms, graphs_are_captured_once_and_issued_at_each_launch) {
  const ProgramRun run = RunProgram("cuda_graphs");
  EXPECT_EQ(run.Said("before"), "[0.0, 0.0, 0.0, 0.0]");
  EXPECT_EQ(run.Said("after"), "[0.0, 1.0, 2.0, 3.0]");
  const std::string spoiled = "CUDA error: operation failed due to a previous error during capture";
  EXPECT_EQ(run.Said("synchronize"), spoiled);
  EXPECT_EQ(run.Said("item"), spoiled);
  EXPECT_EQ(run.Said("unjoined"), "CUDA error: capturing stream has unjoined work");
  EXPECT_EQ(run.Said("pool"), "64");
  // In the marked part everything but the seed's fills and copies comes from two graphs, launched
  // three times each: two products forward, four backward (three for the first layer's input).
  int products = 0;
  int free_launches = 0;
  for (const IssuedOp& op : LastIteration(run).ops) {
    if (op.kind == RecordKind::kMatmul) {
      ++products;
      free_launches += op.launched_with_previous ? 1 : 0;
      EXPECT_THAT(op.framework, ::testing::AnyOf(HasSubstr("aten::addmm"), HasSubstr("aten::mm")));
    }
  }
  EXPECT_EQ(products, 3 * (2 + 4));
  // The first op of a launch carries the host's cost of it.
  EXPECT_GE(free_launches, products - 6);
}

// Between the ops that it was captured between: after the gradients, before the update.
TEST(DevicePrograms, ranges_inside_of_a_graph_come_with_each_launch) {
  std::string launched;
  for (const IssuedOp& op : LastOf(RunProgram("cuda_graphs"), "launches").ops) {
    if (op.kind == RecordKind::kMarker && op.name == "launches" && op.record.marker.begin == 0) {
      break;
    }
    if (op.kind == RecordKind::kMarker && op.name == "Optimizer.step#Adam.step") {
      launched += op.record.marker.begin != 0 ? "(" : ")";
    } else if (op.kind == RecordKind::kMatmul) {
      launched += "m";
    } else if (op.name.find("multi_tensor_apply") != op.name.npos && launched.back() != 'u') {
      launched += "u";
    }
  }
  EXPECT_EQ(launched, "mm(u)mm(u)mm(u)");
}

TEST(DevicePrograms, compiled_models_launch_triton_kernels) {
  const ProgramRun run = RunProgram("compiled");
  EXPECT_EQ(run.Said("compiled"), "3");
  // The first step tries configurations out; the last is what a run repeats: activation and norm in
  // one kernel, two products forward, three backward, one step of the optimizer.
  const ProgramRun step = LastIteration(run);
  EXPECT_EQ(step.CountKernels("triton_per_fused_gelu_native_layer_norm_0"), 1);
  EXPECT_GE(step.CountKernels("triton_"), 3);
  EXPECT_THAT(run.contexts, ::testing::Contains(::testing::StartsWith(
                                "fused::triton_per_fused_gelu_native_layer_norm_0 ")));
  EXPECT_LE(step.CountKernels("triton_"), 12);
  EXPECT_EQ(step.CountKernels("cublas") + step.CountKernels("extern_kernels"), 5);
  EXPECT_GE(step.CountKernels("multi_tensor_apply"), 1);
}

TEST(DevicePrograms, values_that_steer_are_sane) {
  const ProgramRun run = RunProgram("mixed_precision");
  EXPECT_EQ(run.Said("scale"), "1024.0");
  EXPECT_EQ(run.Said("nan"), "False True");
  EXPECT_EQ(run.Said("arange"), "[1, 4, 7]");
  EXPECT_EQ(run.Said("full"), "[7, 7] 1.0");
  EXPECT_EQ(run.Said("equal"), "True");
  EXPECT_EQ(run.Said("stale"), "[0, 0, 0, 0]");
  EXPECT_GT(run.counters.at("unwritten_device_bytes_read"), 0);
  EXPECT_GT(run.counters.at("results_assumed_true:aten::all"), 0);
}

TEST(DevicePrograms, unique_values_are_found) {
  const ProgramRun run = RunProgram("integers");
  EXPECT_EQ(run.Said("unique"), "[3, 7, 9] [1, 0, 0, 2, 1, 1] [2, 3, 1]");
  EXPECT_EQ(run.Said("values"), "[3, 7, 9] [False, True] [3, 7, 9]");
  EXPECT_EQ(run.Said("inverse"), "[False, True] [1, 0, 0, 1, 1, 1] [2, 4]");
  EXPECT_EQ(run.Said("runs"), "[7, 3, 9, 7] [0, 1, 1, 2, 3, 3] [1, 2, 1, 2]");
  EXPECT_EQ(run.Said("run values"), "[7, 3, 9, 7]");
  EXPECT_EQ(run.Said("rows"), "[[0, 5], [1, 2]] [1, 0, 1] [1, 2]");
  EXPECT_EQ(run.Said("columns"), "[[1, 2], [0, 5], [1, 2]]");
  EXPECT_EQ(run.Said("row runs"), "[[1, 2], [0, 5], [1, 2]] [0, 1, 2] [1, 1, 1]");
  EXPECT_EQ(run.Said("of floats"), "[0, 1, 2, 3, 4, 5]");
  EXPECT_EQ(run.Said("none"), "0");
}

// CUB's kernels exist for some architectures only; V100 is older than all of CUDA 13's, and B300
// has none of its own.
TEST(DevicePrograms, sorts_on_architectures_that_no_code_is_for) {
  const std::pair<int, int> architectures[] = {{7, 0}, {8, 9}, {10, 3}};
  for (const auto& [major, minor] : architectures) {
    channel::Config config = H100Config();
    config.device.compute_major = major;
    config.device.compute_minor = minor;
    const ProgramRun run = RunProgram("integers", {}, config);
    EXPECT_EQ(run.Said("none"), "0") << major << "." << minor;
  }
}

// All are distinct, as far as their type allows.
TEST(DevicePrograms, unknown_values_are_distinct) {
  const ProgramRun run = RunProgram("integers");
  EXPECT_EQ(run.Said("all"), "8 [[0, 1], [2, 3], [4, 5], [6, 7]] [1, 1, 1, 1, 1, 1, 1, 1]");
  EXPECT_EQ(run.Said("all rows"), "4 2 [0, 1, 2, 3] [1, 1, 1, 1]");
  EXPECT_EQ(run.Said("all runs"), "8");
  EXPECT_EQ(run.Said("truths"), "2 [[0, 0], [0, 0], [1, 1], [1, 1]]");
  EXPECT_EQ(run.Said("bytes"), "256");
  EXPECT_EQ(run.counters.at("distinct_by_rule"), 5);
}

TEST(DevicePrograms, random_integers_keep_their_bounds) {
  const ProgramRun run = RunProgram("integers");
  EXPECT_EQ(run.Said("drawn"), "[1, 2, 3, 4] [3, 4, 5]");
  EXPECT_EQ(run.Said("again"), "True");
  EXPECT_EQ(run.Said("in place"), "[-2, -1] [0, 1]");
  EXPECT_EQ(run.Said("real"), "[0.0, 1.0, 2.0, 3.0]");
  EXPECT_EQ(run.Said("permutation"), "False True");
  EXPECT_EQ(run.Said("first"), "[4, 1, 4, 1, 4, 3, 2, 1] [26, 46, 38, 14, 0, 15, 8, 11]");
}

TEST(DevicePrograms, integers_are_changed_in_place) {
  const ProgramRun run = RunProgram("integers");
  EXPECT_EQ(run.Said("added"), "2");
  EXPECT_EQ(run.Said("copied"), "2 0");
  EXPECT_EQ(run.Said("out"), "[1, 2, 3] [1, 2]");
  EXPECT_EQ(run.Said("table"), "[[9, 2], [9, 4], [8, 6]]");
  EXPECT_EQ(run.Said("zeroed"), "[[0, 2], [0, 4], [0, 6]]");
}

// Of any type, beside what nobody knows.
TEST(DevicePrograms, joined_values_stay_known) {
  const ProgramRun run = RunProgram("integers");
  EXPECT_EQ(run.Said("joined"), "[0, 1] [False, False]");
  EXPECT_EQ(run.Said("beside unknown"), "[1, 1]");
}

// What a kernel changed in a way that nobody knows is not what it was before.
TEST(DevicePrograms, overwritten_integers_are_unknown) {
  const ProgramRun run = RunProgram("integers");
  EXPECT_EQ(run.Said("column"), "[1, 3, 5]");
  EXPECT_EQ(run.Said("forgotten"), "[0, 0, 0]");
  EXPECT_EQ(run.Said("converted"), "[0, 0, 0]");
  EXPECT_EQ(run.counters.at("unwritten_device_bytes_read"), 2);
}

TEST(DevicePrograms, sharded_models_train_on_one_rank) {
  const ProgramRun run = RunProgram("sharded");
  for (const std::string name : {"fsdp1", "fsdp2", "ddp"}) {
    EXPECT_EQ(run.Said(name), "12288");
  }
  EXPECT_EQ(run.counters.count("observer_missing"), 0U);
}

TEST(DevicePrograms, memory_is_that_of_the_device) {
  const ProgramRun run = RunProgram("memory");
  EXPECT_EQ(run.Said("loaded"), "2016.0");
  // A small segment of 2 MiB belongs to the loader.
  EXPECT_EQ(run.Said("reserved"), "44 42");
  EXPECT_EQ(run.Said("device"), "81559 444");
  EXPECT_EQ(run.Said("segments"), "[False, False, False]");
  EXPECT_EQ(run.Said("released"), "0");
  EXPECT_EQ(run.Said("oom"), "CUDA out of memory. Tried to allocate 90.00 GiB");
  EXPECT_EQ(run.device_peak_bytes, 444 * kMiB);
}

TEST(DevicePrograms, expandable_segments_take_pages) {
  const ProgramRun run = RunProgram("memory", {{"PYTORCH_ALLOC_CONF", "expandable_segments:True"}});
  // 42 MiB in pages of 20 MiB, and one of 2 MiB in the small pool.
  EXPECT_EQ(run.Said("reserved"), "62 42");
  EXPECT_EQ(run.Said("segments"), "[True, True]");
  EXPECT_EQ(run.Said("released"), "0");
  EXPECT_EQ(run.Said("oom"), "CUDA out of memory. Tried to allocate 90.00 GiB");
}

// The allocator asks for events; three blocks and the small segment are as many as are pending.
TEST(DevicePrograms, blocks_that_another_stream_uses_are_not_free_at_once) {
  const ProgramRun run = RunProgram("used_by_streams");
  EXPECT_EQ(run.Said("pending"), "62");
  EXPECT_EQ(run.Said("waited"), "62");
  EXPECT_EQ(run.Said("launched"), "62");
  EXPECT_EQ(run.Said("more"), "122");
}

TEST(DevicePrograms, layers_and_factorisations_reach_their_libraries) {
  const ProgramRun run = RunProgram("layers");
  EXPECT_EQ(run.Said("normalised"), "8 16 10 10");
  EXPECT_EQ(run.Said("convolved"), "8 24 4 4");
  EXPECT_EQ(run.Said("transposed"), "8 24 12 12");
  EXPECT_EQ(run.Said("recurrent"), "7 4 32");
  EXPECT_EQ(run.Said("gated"), "7 4 64");
  EXPECT_EQ(run.Said("spectrum"), "8 16 10 10");
  EXPECT_EQ(run.Said("inverse"), "3 6 6");
  EXPECT_EQ(run.Said("factors"), "3 6 6 6 6");
  EXPECT_EQ(run.Said("eigenvalues"), "200");
  EXPECT_EQ(run.Said("singular"), "6");
  EXPECT_EQ(run.Said("sparse"), "6 6");
  EXPECT_EQ(run.CountKernels("cudnnBatchNormalizationBackwardEx", ""), 1);
  EXPECT_EQ(run.CountKernels("cudnnBackendExecute",
                             "cudnn::convolution_backward_weight [8,16,10,10] float32, "
                             "[24,16,3,3] float32, [8,24,4,4] float32"),
            1);
  // For each layer: the input at once, then state and projection of each of seven steps.
  EXPECT_EQ(run.CountKernels("cudnnRNNForward", "aten::_cudnn_rnn"), 2 * (1 + 2 * 7) + (1 + 7));
  EXPECT_EQ(run.CountKernels("cufftXtExec", ""), 2);
  EXPECT_GT(run.counters.at("library_workspace_unknown"), 0);
}

// In the requested version, whose arguments may differ.
TEST(DevicePrograms, asks_the_driver_for_calls_by_name) {
  const ProgramRun run = RunProgram("driver_calls");
  EXPECT_EQ(run.Said("synchronize"), "0 0");
  EXPECT_EQ(run.Said("device"), "0 0 0 0");
  EXPECT_EQ(run.Said("stream"), "0 True None");
  EXPECT_EQ(run.Said("look-up"), "0 True 7") << "a status that the call does not have is written";
}

TEST(DevicePrograms, what_cannot_work_says_so_by_name) {
  const ProgramRun run = RunProgram("refusals");
  EXPECT_THAT(run.output, HasSubstr("prism shim: cusparseLtInit is not supported by the virtual "
                                    "device\n"));
  EXPECT_THAT(run.Said("pruned"), HasSubstr("raised CUDA error: not supported"));
  EXPECT_THAT(run.output, HasSubstr("prism shim: cuptiSubscribe is not supported"));
  EXPECT_EQ(run.Said("profiler"), "worked");
  EXPECT_EQ(run.counters.at("refused_cusparseLtInit"), 1);
}

}  // namespace
}  // namespace prism::testing
