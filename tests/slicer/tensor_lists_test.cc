// Optimizer steps whose lists of tensors are written as sums.
#include <vector>

#include <gtest/gtest.h>

#include "graph/base/rng.h"
#include "replayer/cost/compute_cost.h"
#include "slicer/synthesize/blocks/blocks.h"
#include "tests/support/test_parameters.h"

namespace prism::slicer {
namespace {

using graph::JobSpec;
using graph::OpKind;
using graph::Precision;
using graph::TrainingStyle;

// Ops that are not kernels as -1.
std::vector<DurationNs> DurationsOf(const Block& block, const BlockTables& tables) {
  graph::Graph strings;
  strings.strings = tables.strings();
  const replayer::ComputeCost cost(prism::testing::TestCluster());
  std::vector<DurationNs> durations;
  for (uint32_t op = 0; op < block.program.size(); ++op) {
    const bool kernel = block.program.kind[op] == OpKind::kKernel;
    durations.push_back(
        kernel ? cost.Kernel(strings, tables.signatures()[block.program.signature[op]]).duration_ns
               : -1);
  }
  return durations;
}

TEST(TensorLists, as_sums_cost_as_much_as_whole) {
  JobSpec job;
  job.model.layers = 4;
  job.model.hidden = 512;
  job.model.heads = job.model.kv_heads = 8;
  job.model.ffn = 2048;
  job.model.vocab = 1024;
  job.seq_len = job.model.seq_len = 256;
  job.parallel.tp = 2;
  Rng rng(7, "tensor lists");
  for (int i = 0; i < 200; ++i) {
    TrainingStyle style;
    style.precision = rng.UniformInt(0, 1) == 0 ? Precision::kFloat16 : Precision::kBfloat16;
    style.loss_scaling = style.precision == Precision::kFloat16;
    style.fused_optimizer = rng.UniformInt(0, 1) == 0;
    style.gradient_norm = rng.UniformInt(0, 3) > 0;
    style.gradient_type = rng.UniformInt(0, 1) == 0 ? DataType::kFloat32 : DataType::kBfloat16;
    style.data_parallel = rng.UniformInt(0, 1) == 0 ? graph::DataParallelKind::kFsdp
                                                    : graph::DataParallelKind::kMegatron;
    OptimizerPieces pieces;
    for (std::vector<int64_t>* group : {&pieces.decay, &pieces.no_decay}) {
      for (int64_t left = rng.UniformInt(0, 150); left > 0; --left) {
        group->push_back(rng.UniformInt(1, int64_t{1} << rng.UniformInt(1, 30)));
      }
    }
    const RankShape rank(job, style);
    BlockTables whole;
    BlockTables sums;
    EXPECT_EQ(DurationsOf(OptimizerStep(rank, pieces, &whole), whole),
              DurationsOf(OptimizerStep(rank, pieces, &sums, TensorLists::kSums), sums));
  }
}

}  // namespace
}  // namespace prism::slicer
