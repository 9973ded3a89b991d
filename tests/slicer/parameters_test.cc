// The parameters that synthesised kernels update and data parallelism reduces are those that the
// memory model counts: the same ones, kind by kind, in the same order.
#include <algorithm>
#include <map>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include "replayer/memory/model_states.h"
#include "slicer/synthesize/blocks/blocks.h"

namespace prism::slicer {
namespace {

using graph::BlockKind;

graph::JobSpec DrawJob() {
  graph::JobSpec job;
  job.parallel.tp = *rc::gen::element(1, 2, 4);
  job.parallel.pp = *rc::gen::element(1, 2);
  job.sequence_parallel = *rc::gen::arbitrary<bool>();
  job.model.block = *rc::gen::element(BlockKind::kGpt, BlockKind::kLlama, BlockKind::kNemotron);
  job.model.layers = 4;
  job.model.heads = 8;
  job.model.kv_heads = *rc::gen::element(4, 8);
  job.model.hidden = 64 * *rc::gen::inRange(1, 8);
  job.model.ffn = 16 * *rc::gen::inRange(1, 40);
  job.model.vocab = *rc::gen::inRange(1, 3000);
  job.model.tied_embeddings = *rc::gen::arbitrary<bool>();
  if (*rc::gen::arbitrary<bool>()) {
    job.model.latent = {.q_rank = *rc::gen::element(0, 48),
                        .kv_rank = 32,
                        .rope_dim = 8,
                        .value_dim = *rc::gen::element(16, 24)};
  }
  job.seq_len = 32;
  return job;
}

// Parameters of a chunk with embedding, `layers` layers and head, if it has them, last declared
// first.
using Kind = std::tuple<bool, bool, bool, bool>;  // tied, split, sequence parallel, decay

std::map<Kind, std::vector<int64_t>> SynthesisedParameters(const graph::JobSpec& job,
                                                           int64_t layers,
                                                           int32_t chunk) {
  const bool first = chunk == 0;
  const bool last = chunk == job.parallel.pp - 1;
  const UnitPlace place = {.shares_embedding = first && last && job.model.tied_embeddings};
  const RankShape rank(job, {});
  BlockTables tables;
  std::map<Kind, std::vector<int64_t>> kinds;
  const auto declare = [&](const UnitBlocks& unit) {
    for (const graph::UnitParameter& parameter : unit.parameters) {
      std::vector<int64_t>& elements =
          kinds[{parameter.tied, parameter.split, parameter.sequence_parallel, parameter.decay}];
      elements.push_back(parameter.ElementCount());
    }
  };
  if (first) {
    declare(EmbeddingUnit(rank, place, &tables));
  }
  for (int64_t layer = 0; layer < layers; ++layer) {
    declare(LayerUnit(rank, {.layer = layer}, &tables));
  }
  if (last) {
    declare(HeadUnit(rank, place, &tables));
  }
  for (auto& [kind, elements] : kinds) {
    std::reverse(elements.begin(), elements.end());
  }
  return kinds;
}

RC_GTEST_PROP(Parameters, of_memory_are_those_of_the_kernels, ()) {
  const graph::JobSpec job = DrawJob();
  const auto chunk = *rc::gen::inRange(0, job.parallel.pp);
  const int64_t layers = *rc::gen::inRange(1, 4);
  std::map<Kind, std::vector<int64_t>> counted;
  for (const auto& kind : replayer::ParametersOfChunk(job, {0, layers}, chunk).kinds) {
    counted[{kind.tied, kind.split, kind.sequence_parallel, kind.decay}] = kind.elements;
  }
  RC_ASSERT(counted == SynthesisedParameters(job, layers, chunk));
}

}  // namespace
}  // namespace prism::slicer
