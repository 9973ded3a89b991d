// Parameters, gradients and optimizer state of every model preset, counted by hand from the shapes
// that its source prints.
#include "replayer/memory/model_states.h"

#include <cstdint>
#include <map>
#include <string>

#include <gtest/gtest.h>

#include "launch/inputs/presets.h"

namespace prism::launch {
namespace {

constexpr int64_t kVocabularyUnit = 128;  // Megatron pads the vocabulary to multiples of it

// Elements of the whole model. GPT: 12 h² + 13 h per layer, positions, a last norm, tied words
// (arXiv 2104.04473, section 2); Llama: no biases, three matrices of the feed-forward network, keys
// and values of few heads, words twice (arXiv 2407.21783, table 3).
int64_t CountedByHand(const graph::ModelSpec& model, int64_t seq_len) {
  const int64_t h = model.hidden;
  const int64_t words = (model.vocab + kVocabularyUnit - 1) / kVocabularyUnit * kVocabularyUnit * h;
  if (model.block == graph::BlockKind::kGpt) {
    return model.layers * (12 * h * h + 13 * h) + words + seq_len * h + 2 * h;
  }
  const int64_t attention = 2 * h * (model.heads + model.kv_heads) * model.HeadDim();
  const bool is_llama = model.block == graph::BlockKind::kLlama;
  const int64_t norm = is_llama ? h : 2 * h;  // LayerNorm has a bias
  const int64_t matrices = is_llama ? 3 : 2;  // Nemotron's feed-forward has one branch
  return model.layers * (attention + matrices * h * model.ffn + 2 * norm) + norm +
         (model.tied_embeddings ? 1 : 2) * words;
}

TEST(ModelStates, of_every_preset_are_those_counted_by_hand) {
  int models = 0;
  for (const EmbeddedPreset& preset : EmbeddedPresets()) {
    if (preset.kind != PresetKind::kModel) {
      continue;
    }
    ++models;
    SCOPED_TRACE(preset.name);
    const Result<ModelPreset> loaded = LoadModel(std::string(preset.name));
    ASSERT_TRUE(loaded.ok()) << loaded.status().message();
    if (loaded->model.moe.experts > 0) {
      continue;  // tests/launch/plan/search_experts_test.cc, megatron_rows_test.cc
    }
    graph::JobSpec job;
    job.model = loaded->model;
    job.seq_len = loaded->model.seq_len;
    job.micro_batch_size = 1;
    job.global_batch_size = 1;
    job.zero_stage = 0;
    const auto states = replayer::StatesOfStage(job, graph::TrainingStyle{}, 0);
    ASSERT_TRUE(states.ok()) << states.status().message();
    std::map<replayer::MemoryUse, int64_t> bytes;
    int64_t optimizer_tensors = 0;
    for (const replayer::StateTensor& state : *states) {
      bytes[state.use] += state.bytes;
      optimizer_tensors += state.use == replayer::MemoryUse::kOptimizer ? 1 : 0;
    }
    const int64_t elements = CountedByHand(job.model, job.seq_len);
    const int64_t gradient = DataTypeBytes(graph::TrainingStyle{}.gradient_type);
    // A master copy and two moments per bucket, and two tensors of scalars: the step, one per
    // bucket.
    const int64_t buckets = (optimizer_tensors - 2) / 3;
    EXPECT_EQ(bytes[replayer::MemoryUse::kParameters], 2 * elements);
    EXPECT_EQ(bytes[replayer::MemoryUse::kGradients], gradient * elements);
    EXPECT_EQ(bytes[replayer::MemoryUse::kOptimizer], 12 * elements + 4 + 4 * buckets);
  }
  EXPECT_GE(models, 8);
}

// Of frozen weights only the adapters have gradients and moments.
TEST(ModelStates, of_frozen_weights_are_their_values_and_those_of_the_adapters) {
  graph::JobSpec job;
  job.model.block = graph::BlockKind::kLlama;
  job.model.layers = 2;
  job.model.hidden = 512;
  job.model.heads = job.model.kv_heads = 8;
  job.model.ffn = 2048;
  job.model.vocab = 1024;
  job.seq_len = 256;
  job.micro_batch_size = job.global_batch_size = 2;
  job.parallel.dp = 2;
  job.zero_stage = 3;
  graph::TrainingStyle style;
  style.built_in = false;
  style.data_parallel = graph::DataParallelKind::kFsdp;
  style.frozen_weights = style.adapters_of_all = true;
  const auto states = replayer::StatesOfStage(job, style, 0);
  ASSERT_TRUE(states.ok()) << states.status().message();
  std::map<replayer::MemoryUse, int64_t> bytes;
  for (const replayer::StateTensor& state : *states) {
    bytes[state.use] += state.bytes;
  }
  const int64_t adapters = 2 * 16 * (8 * 512 + 3 * (512 + 2048)) / 2;
  EXPECT_EQ(bytes[replayer::MemoryUse::kParameters],
            4 * (CountedByHand(job.model, 256) / 2 + adapters));
  EXPECT_EQ(bytes[replayer::MemoryUse::kGradients], 4 * adapters);
  EXPECT_EQ(bytes[replayer::MemoryUse::kOptimizer], 8 * adapters);
}

}  // namespace
}  // namespace prism::launch
