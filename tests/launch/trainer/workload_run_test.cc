// prism-workload on the virtual device, as a single rank, at the target's world size: it runs on
// every kind of stage, and ends as a training program would.
#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launch/trainer/args.h"
#include "tests/support/preload.h"

namespace prism::launch {
namespace {

struct Outcome {
  int code = -1;
  std::string output;  // stdout and stderr
  int iterations = 0;  // lines of the log
  double allocated_gib = 0;
};

graph::JobSpec Gpt3() {
  graph::JobSpec job;
  job.model.layers = 96;
  job.model.hidden = 12288;
  job.model.heads = 96;
  job.model.kv_heads = 96;
  job.model.ffn = 49152;
  job.model.vocab = 50257;
  job.parallel = {.tp = 8, .dp = 64, .pp = 16};
  job.global_batch_size = 1536;
  job.seq_len = 2048;
  return job;
}

graph::JobSpec Llama() {
  graph::JobSpec job;
  job.model.block = graph::BlockKind::kLlama;
  job.model.layers = 32;
  job.model.hidden = 4096;
  job.model.heads = 32;
  job.model.kv_heads = 8;
  job.model.ffn = 14336;
  job.model.vocab = 128256;
  job.model.tied_embeddings = false;
  job.parallel = {.tp = 4, .dp = 8, .pp = 4};
  job.global_batch_size = 64;
  job.seq_len = 8192;
  return job;
}

Outcome RunRank(const graph::JobSpec& job, int32_t rank) {
  std::string command =
      "LD_PRELOAD=" + testing::PreloadOf(PRISM_LIBRARY_DIR) + " RANK=" + std::to_string(rank) +
      " WORLD_SIZE=" + std::to_string(job.parallel.world_size()) + " " + PRISM_WORKLOAD;
  for (const std::string& arg : WorkloadArgs(job, 2)) {
    command += " " + arg;
  }
  Outcome outcome;
  FILE* const pipe = popen((command + " 2>&1").c_str(), "r");
  if (pipe == nullptr) {
    return outcome;
  }
  std::array<char, 4096> buffer = {};
  while (std::fgets(buffer.data(), static_cast<int>(buffer.size()), pipe) != nullptr) {
    const std::string line = buffer.data();
    outcome.output += line;
    const std::string label = "max allocated (GiB): ";
    if (const size_t at = line.find(label); at != std::string::npos) {
      ++outcome.iterations;
      outcome.allocated_gib = std::stod(line.substr(at + label.size()));
    }
  }
  const int status = pclose(pipe);
  outcome.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return outcome;
}

// Parameters, float32 gradients and 1/64 of the optimizer are the same on all middle stages: 8.0
// GiB. Activations are those of (16 - stage) micro-batches in flight, 0.56 GiB each.
TEST(WorkloadRun, every_stage_of_gpt3_trains_at_8192_ranks) {
  const Outcome first = RunRank(Gpt3(), 0);
  const Outcome middle = RunRank(Gpt3(), 4096);
  const Outcome last = RunRank(Gpt3(), 8191);
  for (const Outcome* outcome : {&first, &middle, &last}) {
    EXPECT_EQ(outcome->code, 0) << outcome->output;
    EXPECT_EQ(outcome->iterations, 2) << outcome->output;
  }
  EXPECT_THAT(first.output, ::testing::Not(::testing::HasSubstr("loss:")));
  EXPECT_THAT(last.output, ::testing::HasSubstr("loss:"));
  EXPECT_NEAR(middle.allocated_gib, 8.0 + 8 * 0.56, 0.3);
  EXPECT_GT(first.allocated_gib, middle.allocated_gib);
  EXPECT_GT(middle.allocated_gib, last.allocated_gib);
}

TEST(WorkloadRun, variants_run_and_recomputation_saves_memory) {
  graph::JobSpec job = Gpt3();
  job.global_batch_size = 2048;  // 32 micro-batches: interleaving needs a multiple of pp
  job.parallel.vpp = 2;
  const Outcome interleaved = RunRank(job, 4096);
  EXPECT_EQ(interleaved.code, 0) << interleaved.output;
  job.recompute = graph::Recompute::kFull;
  job.zero_stage = 0;
  job.sequence_parallel = false;
  const Outcome recomputed = RunRank(job, 4096);
  EXPECT_EQ(recomputed.code, 0) << recomputed.output;

  const Outcome llama = RunRank(Llama(), 0);
  EXPECT_EQ(llama.code, 0) << llama.output;
  graph::JobSpec full = Llama();
  full.recompute = graph::Recompute::kFull;
  const Outcome llama_recomputed = RunRank(full, 0);
  EXPECT_EQ(llama_recomputed.code, 0) << llama_recomputed.output;
  EXPECT_LT(llama_recomputed.allocated_gib, llama.allocated_gib);
}

TEST(WorkloadRun, ends_with_the_message_of_libtorch_when_memory_is_out) {
  graph::JobSpec job = Gpt3();
  job.parallel = {.tp = 1, .dp = 1536, .pp = 1};
  const Outcome outcome = RunRank(job, 0);
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.output, ::testing::HasSubstr("CUDA out of memory. Tried to allocate"));
}

TEST(WorkloadRun, refuses_a_bad_command_line) {
  graph::JobSpec job = Gpt3();
  job.parallel.tp = 7;
  const Outcome outcome = RunRank(job, 0);
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.output, ::testing::StartsWith("prism-workload: "));
}

}  // namespace
}  // namespace prism::launch
