// The steps of a ring, of which those in the middle are written once and repeated.
#include <string>

#include <gtest/gtest.h>

#include "slicer/synthesize/blocks/blocks.h"

namespace prism::slicer {
namespace {

using graph::OpKind;

constexpr uint16_t kRing = graph::StageStream(graph::GroupAxis::kContext);

// Compute waits for the collective that was started last, and every message is waited for.
struct Steps {
  int64_t kernels = 0;  // of attention
  int64_t passed_on = 0;
  int64_t awaited = 0;
};

Steps StepsOf(const graph::Program& program, const BlockTables& tables, const std::string& kernel) {
  Steps steps;
  uint32_t started = graph::kNoDep;
  for (uint32_t op = 0; op < program.size(); ++op) {
    if (program.kind[op] == OpKind::kKernel) {
      const graph::KernelSignature& signature = tables.signatures()[program.signature[op]];
      steps.kernels += tables.strings()[signature.name.value()] == kernel ? 1 : 0;
    } else if (program.kind[op] == OpKind::kCollective && program.stream[op] == kRing) {
      started = op;
      ++steps.passed_on;
    } else if (program.kind[op] == OpKind::kEventWait && program.stream[op] != kRing &&
               program.stream[program.dep[op]] == kRing) {
      EXPECT_EQ(program.dep[op], started + 1);
      ++steps.awaited;
    }
  }
  return steps;
}

TEST(RingAttention, has_a_step_for_every_rank_of_the_ring) {
  for (int32_t cp = 2; cp <= 7; ++cp) {
    graph::JobSpec job;
    job.model.layers = 1;
    job.model.hidden = 512;
    job.model.heads = job.model.kv_heads = 8;
    job.model.ffn = 2048;
    job.model.vocab = 1024;
    job.parallel.cp = cp;
    job.seq_len = job.model.seq_len = 256 * cp;
    graph::TrainingStyle style;
    style.built_in = false;
    style.attention = graph::AttentionKind::kFlash1;
    BlockTables tables;
    const UnitBlocks layer = LayerUnit(RankShape(job, style), {}, &tables);
    const Steps forward = StepsOf(layer.forward.program, tables, "flash_v1_fwd_kernel");
    EXPECT_EQ(forward.kernels, cp);
    EXPECT_EQ(forward.passed_on, cp - 1);
    EXPECT_EQ(forward.awaited, cp - 1);
    const Steps backward = StepsOf(layer.backward.program, tables, "flash_v1_bwd_kernel");
    EXPECT_EQ(backward.kernels, cp);
    EXPECT_EQ(backward.passed_on, cp);  // the last one returns gradients of keys and values
    EXPECT_EQ(backward.awaited, cp);
  }
}

}  // namespace
}  // namespace prism::slicer
