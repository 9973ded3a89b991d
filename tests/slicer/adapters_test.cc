// Low-rank adapters of all products, and heads in chunks, against products counted by hand.
#include <gtest/gtest.h>

#include "slicer/synthesize/blocks/blocks.h"

namespace prism::slicer {
namespace {

constexpr double kTokens = 256;
constexpr double kHidden = 512;
constexpr double kFfn = 2048;
constexpr double kVocab = 1024;

graph::JobSpec Llama() {
  graph::JobSpec job;
  job.model.block = graph::BlockKind::kLlama;
  job.model.layers = 4;
  job.model.hidden = 512;
  job.model.heads = job.model.kv_heads = 8;
  job.model.ffn = 2048;
  job.model.vocab = 1024;
  job.model.seq_len = job.seq_len = 256;
  job.micro_batch_size = job.global_batch_size = 1;
  return job;
}

graph::TrainingStyle Frozen() {
  graph::TrainingStyle style;
  style.built_in = false;
  style.frozen_weights = true;
  return style;
}

double Flops(const Block& block, const BlockTables& tables) {
  double flops = 0;
  for (uint32_t op = 0; op < block.program.size(); ++op) {
    if (block.program.kind[op] == graph::OpKind::kKernel) {
      const graph::MatmulShape& shape = tables.signatures()[block.program.signature[op]].matmul;
      flops += 2.0 * static_cast<double>(shape.m * shape.n * shape.k * shape.batch);
    }
  }
  return flops;
}

UnitBlocks Layer(const graph::TrainingStyle& style, BlockTables* tables) {
  return LayerUnit(RankShape(Llama(), style), {}, tables);
}

TEST(Adapters, of_the_feed_forward_come_to_those_of_the_attention) {
  BlockTables tables;
  graph::TrainingStyle style = Frozen();
  const UnitBlocks attention = Layer(style, &tables);
  style.adapters_of_all = true;
  const UnitBlocks all = Layer(style, &tables);
  // Two narrow products for each of both branches and of the output.
  const double narrow = 2 * kTokens * 16 * 3 * (kHidden + kFfn);
  EXPECT_DOUBLE_EQ(Flops(all.forward, tables) - Flops(attention.forward, tables), narrow);
  EXPECT_DOUBLE_EQ(Flops(all.backward, tables) - Flops(attention.backward, tables), 2 * narrow);
  style.adapter_rank = 64;
  const UnitBlocks wide = Layer(style, &tables);
  style.adapters_of_all = false;
  EXPECT_DOUBLE_EQ(Flops(wide.forward, tables) - Flops(Layer(style, &tables).forward, tables),
                   4 * narrow);
}

TEST(Adapters, a_head_in_chunks_computes_its_logits_again) {
  BlockTables tables;
  graph::TrainingStyle style = Frozen();
  const RankShape whole(Llama(), style);
  style.chunked_head = true;
  const RankShape chunked(Llama(), style);
  const UnitBlocks kept = HeadUnit(whole, {}, &tables);
  const UnitBlocks again = HeadUnit(chunked, {}, &tables);
  EXPECT_DOUBLE_EQ(Flops(again.forward, tables), Flops(kept.forward, tables));
  EXPECT_DOUBLE_EQ(Flops(again.backward, tables) - Flops(kept.backward, tables),
                   2 * kTokens * kHidden * kVocab);
}

}  // namespace
}  // namespace prism::slicer
