// The softmax of unfused attention: one kernel, or several where Megatron's cannot take the scores.
#include <string>

#include <gtest/gtest.h>

#include "slicer/synthesize/blocks/blocks.h"

namespace prism::slicer {
namespace {

// Kernels of that name in a layer's forward pass, for as many sequences and heads of a rank.
int64_t Kernels(const std::string& name, int64_t sequences, int64_t heads) {
  graph::JobSpec job;
  job.model.layers = 1;
  job.model.hidden = 64 * heads;
  job.model.heads = job.model.kv_heads = heads;
  job.model.ffn = 256 * heads;
  job.model.vocab = 1024;
  job.seq_len = job.model.seq_len = 256;
  job.micro_batch_size = sequences;
  graph::TrainingStyle style;
  style.built_in = false;
  style.attention = graph::AttentionKind::kUnfused;
  BlockTables tables;
  const UnitBlocks layer = LayerUnit(RankShape(job, style), {}, &tables);
  const graph::Program& program = layer.forward.program;
  int64_t count = 0;
  for (uint32_t op = 0; op < program.size(); ++op) {
    if (program.kind[op] == graph::OpKind::kKernel) {
      const graph::KernelSignature& kernel = tables.signatures()[program.signature[op]];
      count += tables.strings()[kernel.name.value()] == name ? 1 : 0;
    }
  }
  return count;
}

TEST(UnfusedAttention, softmax_is_one_kernel_for_multiples_of_four_matrices) {
  EXPECT_EQ(Kernels("scaled_masked_softmax", 2, 4), 1);
  EXPECT_EQ(Kernels("scaled_masked_softmax", 1, 12), 1);
  EXPECT_EQ(Kernels("softmax_warp_forward", 1, 12), 0);
}

TEST(UnfusedAttention, softmax_is_unfused_for_other_numbers_of_matrices) {
  EXPECT_EQ(Kernels("scaled_masked_softmax", 1, 2), 0);
  EXPECT_EQ(Kernels("softmax_warp_forward", 1, 2), 1);
  EXPECT_EQ(Kernels("softmax_warp_forward", 3, 2), 1);
}

}  // namespace
}  // namespace prism::slicer
