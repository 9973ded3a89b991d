// The memory of a pipeline stage against closed formulas and published tables.
#include "replayer/memory/stage_memory.h"

#include <cmath>
#include <fstream>
#include <map>
#include <sstream>
#include <string>

#include <gtest/gtest.h>

#include "replayer/memory/layer_tensors.h"
#include "replayer/memory/model_states.h"

namespace prism::replayer {
namespace {

using graph::JobSpec;
using graph::Recompute;
using graph::TrainingStyle;

// Activations by the formula only: saved bytes of a layer times the layers in flight.
int64_t ActivationBytes(const JobSpec& job, const TrainingStyle& style, int32_t stage) {
  int64_t bytes = 0;
  for (const graph::LayerRange& layers : LayersOfChunks(job, style, stage)) {
    for (int64_t layer = layers.begin; layer < layers.end; ++layer) {
      bytes += LayerTensors(job, style, layer).saved_bytes();
    }
  }
  return std::llround(static_cast<double>(bytes) * MicrobatchesInFlight(job, style, stage));
}

// As Korthikanti et al. count: attention scores are kept, dropout is on, 16 bit.
TrainingStyle PaperStyle() {
  TrainingStyle style;
  style.built_in = false;
  style.attention = graph::AttentionKind::kUnfused;
  style.dropout = true;
  return style;
}

JobSpec PaperJob() {
  JobSpec job;
  job.model = {.name = "GPT 22B",
               .source = {},
               .block = graph::BlockKind::kGpt,
               .layers = 48,
               .hidden = 6144,
               .heads = 64,
               .kv_heads = 64,
               .ffn = 4 * 6144,
               .vocab = 51200,
               .moe = {},
               .latent = {}};
  job.parallel.tp = 8;
  job.seq_len = 2048;
  job.micro_batch_size = 4;
  job.global_batch_size = 4;
  job.sequence_parallel = false;
  return job;
}

// Units of sbh bytes in a layer: arXiv 2205.05198, table 2.
double FormulaUnits(const JobSpec& job) {
  const auto t = static_cast<double>(job.parallel.tp);
  const double scores = 5.0 * static_cast<double>(job.model.heads * job.seq_len) /
                        static_cast<double>(job.model.hidden) / t;
  if (job.recompute == Recompute::kFull) {
    return job.sequence_parallel ? 2 / t : 2;
  }
  const double others = job.sequence_parallel ? 34 / t : 10 + 24 / t;
  return others + (job.recompute == Recompute::kSelective ? 0 : scores);
}

TEST(StageMemory, activations_of_a_layer_are_those_of_the_formula) {
  for (const bool sequence_parallel : {false, true}) {
    for (const Recompute recompute : {Recompute::kNone, Recompute::kSelective, Recompute::kFull}) {
      JobSpec job = PaperJob();
      job.sequence_parallel = sequence_parallel;
      job.recompute = recompute;
      const double unit =
          static_cast<double>(job.seq_len * job.micro_batch_size * job.model.hidden);
      EXPECT_DOUBLE_EQ(static_cast<double>(LayerTensors(job, PaperStyle(), 0).saved_bytes()),
                       unit * FormulaUnits(job));
    }
  }
}

TEST(StageMemory, states_of_a_layer_follow_from_its_shapes) {
  JobSpec job = PaperJob();
  job.zero_stage = 0;
  const StageParameters parameters = ParametersOfChunk(job, {0, 1}, 1);
  const int64_t h = job.model.hidden;
  const int64_t matrices = 12 * h * h / 8;
  const int64_t split_biases = (3 * h + 4 * h) / 8;
  const int64_t whole = 2 * h + 2 * 2 * h;  // two biases, two norms
  EXPECT_EQ(parameters.total(), matrices + split_biases + whole);
}

// Eight experts, ep 2 and etp 2, 16 ranks in a stage: half of four per rank, held by 4 ranks.
TEST(StageMemory, states_of_experts_are_divided_over_their_ranks) {
  JobSpec job = PaperJob();
  job.parallel.tp = 8;
  job.parallel.dp = job.parallel.ep = job.parallel.etp = 2;
  const int64_t h = job.model.hidden;
  const int64_t dense = ParametersOfChunk(job, {0, 1}, 1).total();
  job.model.moe = {.experts = 8, .topk = 2, .expert_ffn = 4 * h};
  const StageParameters parameters = ParametersOfChunk(job, {0, 1}, 1);
  const int64_t mlp = 8 * h * h / 8 + 4 * h / 8 + h;
  const int64_t experts = 4 * (8 * h * h / 2 + 4 * h / 2 + h);
  EXPECT_EQ(parameters.total(), dense - mlp + 8 * h + experts);
  int64_t of_experts = 0;
  for (const StageParameters::Kind& kind : parameters.kinds) {
    of_experts += kind.expert ? kind.total() : 0;
  }
  EXPECT_EQ(of_experts, experts);
}

// A token's rows at its experts instead of its one row: input, widths before and after the
// activation, the latter times the probability, output. A fused activation keeps one width less.
TEST(StageMemory, activations_of_experts_grow_with_their_rows) {
  JobSpec job = PaperJob();
  const int64_t tokens = job.micro_batch_size * job.seq_len / (job.sequence_parallel ? 8 : 1);
  TrainingStyle style = PaperStyle();
  const auto of_third = [&] {
    job.model.moe = {.experts = 8, .topk = 2, .expert_ffn = 4 * job.model.hidden};
    const int64_t two = LayerTensors(job, style, 0).saved_bytes();
    job.model.moe.topk = 3;
    return LayerTensors(job, style, 0).saved_bytes() - two;
  };
  EXPECT_EQ(of_third(), tokens * 14 * job.model.hidden * 2);
  style.fused_bias_activation = true;
  EXPECT_EQ(of_third(), tokens * 10 * job.model.hidden * 2);
}

// DeepSeek-V3's attention (arXiv 2412.19437, 4.2) on one rank: 187.1 M parameters per layer.
TEST(StageMemory, states_of_latent_attention_are_its_compressed_and_expanded_products) {
  JobSpec job = PaperJob();
  job.parallel.tp = 1;
  job.model.block = graph::BlockKind::kLlama;
  job.model.hidden = 7168;
  job.model.heads = job.model.kv_heads = 128;
  job.model.head_dim = 128;
  job.model.ffn = 18432;
  job.model.latent = {.q_rank = 1536, .kv_rank = 512, .rope_dim = 64, .value_dim = 128};
  const int64_t queries = 1536 * (7168 + 128 * 192);
  const int64_t keys_and_values = 7168 * 576 + 512 * 128 * 256;
  const int64_t norms = 2 * 7168 + 1536 + 512;
  EXPECT_EQ(ParametersOfLayer(job, 0).total(),
            queries + keys_and_values + 128 * 128 * 7168 + 3 * 7168 * 18432 + norms);
  job.parallel.tp = 8;
  const int64_t split = 1536 * 16 * 192 + 512 * 16 * 256 + 16 * 128 * 7168 + 3 * 7168 * 18432 / 8;
  EXPECT_EQ(ParametersOfLayer(job, 0).total(), split + 7168 * (1536 + 576) + norms);
}

// Keys, queries and values are whole, as if there were no compression, and computed again on
// request; the compressed rows are kept before and after their norms.
TEST(StageMemory, activations_of_latent_attention_are_expanded) {
  JobSpec job = PaperJob();
  job.parallel.tp = 1;
  TrainingStyle style = PaperStyle();
  const int64_t plain = LayerTensors(job, style, 0).saved_bytes();
  const int64_t head = job.model.HeadDim();
  job.model.latent = {.q_rank = 1536, .kv_rank = 512, .rope_dim = 64, .value_dim = head};
  const int64_t latent = LayerTensors(job, style, 0).saved_bytes();
  const int64_t row = job.micro_batch_size * job.seq_len * 2;
  EXPECT_EQ(latent - plain, row * (2 * 64 * 64 + 2 * 1536 + 2 * 512 + 64));
  job.recompute = Recompute::kSelective;
  style.recompute_parts = graph::kRecomputeUpProjection;
  EXPECT_EQ(latent - LayerTensors(job, style, 0).saved_bytes(), row * 64 * (3 * head + 2 * 64));
}

// Two dense layers of four, and one that predicts further tokens after them: the last stage has
// experts three times, a second head, and a word embedding.
TEST(StageMemory, dense_layers_come_first_and_further_tokens_last) {
  JobSpec job = PaperJob();
  job.parallel.pp = 2;
  job.global_batch_size = 4 * job.micro_batch_size;
  job.model.layers = 4;
  job.model.moe = {.experts = 8, .topk = 2, .expert_ffn = 4 * job.model.hidden};
  const int64_t expert_layer = ParametersOfLayer(job, 3).total();
  job.model.moe.dense_layers = 2;
  EXPECT_LT(ParametersOfLayer(job, 1).total(), expert_layer);
  EXPECT_EQ(ParametersOfLayer(job, 2).total(), expert_layer);
  const int64_t without = ParametersOfChunk(job, {2, 4}, 1).total();
  job.model.mtp_layers = 1;
  job.model.tied_embeddings = false;
  const int64_t h = job.model.hidden;
  const int64_t words = graph::PaddedVocab(job) * h / job.parallel.tp;
  EXPECT_EQ(ParametersOfChunk(job, {2, 4}, 1).total() - without,
            expert_layer + 2 * h * h / job.parallel.tp + 3 * 2 * h + words);
  const auto activations = [&](int32_t stage) {
    return ActivationBytes(job, PaperStyle(), stage) /
           std::llround(MicrobatchesInFlight(job, PaperStyle(), stage));
  };
  EXPECT_GT(activations(1), activations(0));
  const int64_t one = PredictStageMemory(job, PaperStyle(), 1)->peak_allocated;
  job.model.mtp_layers = 0;
  EXPECT_LT(PredictStageMemory(job, PaperStyle(), 1)->peak_allocated, one);
  StageMemoryOptions options;
  options.host.what = graph::Offload::kActivations;
  const Result<StageMemory> offloaded = PredictStageMemory(job, PaperStyle(), 1, options);
  ASSERT_FALSE(offloaded.ok());
  EXPECT_EQ(offloaded.status().message(),
            "offload of activations is not described where layers differ");
}

// What a selective recomputation names is not kept: norms, if they are separate kernels.
TEST(StageMemory, parts_of_a_layer_are_computed_again_by_name) {
  JobSpec job = PaperJob();
  job.recompute = Recompute::kSelective;
  TrainingStyle style = PaperStyle();
  const auto kept = [&](uint32_t parts) {
    style.recompute_parts = parts;
    return LayerTensors(job, style, 0).saved_bytes();
  };
  const int64_t all = kept(0);
  const int64_t hidden = job.micro_batch_size * job.seq_len * job.model.hidden * 2;
  EXPECT_EQ(kept(graph::kRecomputeNorm), all);
  EXPECT_EQ(all - kept(graph::kRecomputeMlp), hidden);  // two tensors four times as wide, over tp 8
  job.model.moe = {.experts = 8, .topk = 2, .expert_ffn = 4 * job.model.hidden};
  const int64_t mixture = kept(0);
  EXPECT_EQ(mixture - kept(graph::kRecomputeNorm), hidden);
  EXPECT_EQ(mixture - kept(graph::kRecomputeActivation), 16 * hidden);  // eager: two of them
  EXPECT_GT(mixture - kept(graph::kRecomputeMoe), 20 * hidden);
}

// Tensors in host memory are on the device for one layer at a time; gradients of the first
// micro-batches' logits wait for the weight gradient.
TEST(StageMemory, what_is_offloaded_is_not_kept_and_what_is_deferred_is) {
  JobSpec job = PaperJob();
  job.parallel.pp = 2;
  job.global_batch_size = 8 * job.micro_batch_size;
  const TrainingStyle style = PaperStyle();
  const auto kept = [&](uint32_t parts) {
    return LayerTensors(job, style, 0, {.offloaded_parts = parts}).saved_bytes();
  };
  const int64_t hidden = job.micro_batch_size * job.seq_len * job.model.hidden * 2;
  EXPECT_EQ(kept(0) - kept(kOffloadAttentionNorm | kOffloadMlpNorm), 2 * hidden);
  const auto peak = [&](const StageMemoryOptions& options) {
    return PredictStageMemory(job, style, 1, options)->peak_allocated;
  };
  StageMemoryOptions options;
  const int64_t usual = peak(options);
  options.layers.offloaded_parts = kOffloadCoreAttention;
  EXPECT_LT(peak(options), usual);
  options.layers.offloaded_parts = 0;
  options.deferred_heads = 2;
  const int64_t logits =
      job.micro_batch_size * job.seq_len * graph::PaddedVocab(job) / job.parallel.tp * 2;
  EXPECT_NEAR(static_cast<double>(peak(options) - usual),
              2.0 * static_cast<double>(logits + hidden), 0.5 * static_cast<double>(logits));
  options.deferred_heads = 1 << 20;
  EXPECT_GT(peak(options), usual + 7 * logits);
}

// DeepSpeed's stages keep what they sent, and its bf16 optimizer casts all of its sums at once.
TEST(StageMemory, deepspeed_keeps_outputs_and_casts_all_sums_to_reduce_them) {
  JobSpec job = PaperJob();
  job.parallel.dp = 4;
  TrainingStyle style = PaperStyle();
  EXPECT_EQ(BoundaryTensors(job, style).saved_bytes(), 0);
  style.memory = graph::MemoryPattern::kDeepSpeed;
  const int64_t tokens = job.micro_batch_size * job.seq_len;
  EXPECT_EQ(BoundaryTensors(job, style).saved_bytes(), tokens * job.model.hidden * 2);
  style.gradient_type = DataType::kFloat32;
  style.bucket_elements = 1 << 20;
  EXPECT_EQ(StepOfStage(job, style, 0).front().front(), 2 << 20);
  style.separate_fp32_gradients = true;
  EXPECT_GT(StepOfStage(job, style, 0).front().front(), int64_t{22'000'000'000} / 8 * 2);
}

// Scores of a sequence of 4 M tokens exceed any address space, which must not end the process.
TEST(StageMemory, more_than_a_simulation_holds_is_a_failure_of_the_prediction) {
  for (const graph::MemoryPattern pattern :
       {graph::MemoryPattern::kUsual, graph::MemoryPattern::kNanotron}) {
    JobSpec job = PaperJob();
    job.sequence_parallel = true;
    TrainingStyle style = PaperStyle();
    style.memory = pattern;
    EXPECT_TRUE(PredictStageMemory(job, style, 0).ok());
    job.seq_len = int64_t{1} << 22;
    job.micro_batch_size = job.global_batch_size = 1024;
    const Result<StageMemory> memory = PredictStageMemory(job, style, 0);
    ASSERT_FALSE(memory.ok());
    EXPECT_EQ(memory.status().message(), "a rank would need more than 1 PiB of memory");
  }
}

TEST(StageMemory, interleaving_holds_more_activations) {
  JobSpec job = PaperJob();
  job.parallel.pp = 8;
  job.global_batch_size = 64 * job.micro_batch_size;
  EXPECT_DOUBLE_EQ(MicrobatchesInFlight(job, PaperStyle(), 0), 8);
  EXPECT_DOUBLE_EQ(MicrobatchesInFlight(job, PaperStyle(), 7), 1);
  job.parallel.vpp = 3;
  EXPECT_DOUBLE_EQ(MicrobatchesInFlight(job, PaperStyle(), 0), 8 * (1 + 7.0 / 24));
}

// Of 126 layers in 16 x 4 chunks the last two chunks have one layer, and the last stage ends with
// one: the chunk that holds a single pass.
TEST(StageMemory, chunks_have_the_layers_of_the_schedule) {
  JobSpec job = PaperJob();
  job.parallel.pp = 16;
  job.parallel.vpp = 4;
  job.global_batch_size = job.micro_batch_size * 64;
  int64_t peaks[2];
  for (const int64_t missing : {0, 2}) {
    job.model.layers = 128 - missing;
    peaks[missing / 2] = PredictStageMemory(job, PaperStyle(), 15)->peak_allocated;
  }
  const int64_t layer = LayerTensors(job, PaperStyle(), 0).saved_bytes();
  const int64_t states = 18 * 12 * job.model.hidden * job.model.hidden / job.parallel.tp;
  EXPECT_GT(peaks[0], peaks[1]);
  EXPECT_LT(peaks[0] - peaks[1], states + 3 * layer);
}

// A rank has at least one head of keys and values.
TEST(StageMemory, fewer_heads_of_keys_than_ranks_are_copied) {
  JobSpec job = PaperJob();
  job.model.kv_heads = 8;
  const int64_t whole = LayerTensors(job, PaperStyle(), 0).saved_bytes();
  job.model.kv_heads = 4;
  EXPECT_EQ(LayerTensors(job, PaperStyle(), 0).saved_bytes(), whole);
  const int64_t copied = ParametersOfChunk(job, {0, 1}, 1).total();
  job.model.kv_heads = 8;
  EXPECT_EQ(copied, ParametersOfChunk(job, {0, 1}, 1).total());
}

TEST(StageMemory, shards_shrink_the_optimizer_only) {
  JobSpec job = PaperJob();
  job.parallel.dp = 4;
  job.global_batch_size = 16 * job.micro_batch_size;
  std::map<MemoryUse, int64_t> bytes[2];
  for (const int zero : {0, 1}) {
    job.zero_stage = zero;
    const Result<std::vector<StateTensor>> states = StatesOfStage(job, {}, 0);
    ASSERT_TRUE(states.ok());
    for (const StateTensor& state : *states) {
      bytes[zero][state.use] += state.bytes;
    }
  }
  EXPECT_EQ(bytes[0][MemoryUse::kParameters], bytes[1][MemoryUse::kParameters]);
  EXPECT_EQ(bytes[0][MemoryUse::kGradients], bytes[1][MemoryUse::kGradients]);
  EXPECT_NEAR(static_cast<double>(bytes[1][MemoryUse::kOptimizer]),
              static_cast<double>(bytes[0][MemoryUse::kOptimizer]) / 4, 4096);
}

int64_t BytesOf(const JobSpec& job, const TrainingStyle& style, MemoryUse use) {
  const Result<std::vector<StateTensor>> states = StatesOfStage(job, style, 0);
  int64_t bytes = 0;
  for (const StateTensor& state : *states) {
    bytes += state.use == use ? state.bytes : 0;
  }
  return bytes;
}

// 2 + 4 bytes per element of a rank's share in fp16, 4 + 4 of all without ZeRO, 0 for fp32 sums.
TEST(StageMemory, deepspeed_steps_with_flat_copies_of_its_gradients) {
  JobSpec job = PaperJob();
  job.parallel.dp = 4;
  job.zero_stage = 1;
  job.global_batch_size = 4 * job.micro_batch_size;
  TrainingStyle style = PaperStyle();
  style.gradient_type = DataType::kFloat16;
  style.bucket_elements = 1000;
  EXPECT_TRUE(StepOfStage(job, style, 0).empty());
  const Result<StageMemory> usual = PredictStageMemory(job, style, 0);
  style.memory = graph::MemoryPattern::kDeepSpeed;
  const int64_t own = BytesOf(job, style, MemoryUse::kParameters) / 2 / 4;
  auto turns = StepOfStage(job, style, 0);
  ASSERT_EQ(turns.size(), 2U);
  EXPECT_EQ(turns[0], std::vector<int64_t>{2000});
  EXPECT_NEAR(static_cast<double>(turns[1][0]), 2.0 * static_cast<double>(own), 4096);
  EXPECT_NEAR(static_cast<double>(turns[1][1]), 4.0 * static_cast<double>(own), 4096);
  // No cached activation is as large as either copy.
  const Result<StageMemory> memory = PredictStageMemory(job, style, 0);
  ASSERT_TRUE(usual.ok() && memory.ok());
  EXPECT_NEAR(static_cast<double>(memory->peak_reserved - usual->peak_reserved),
              6.0 * static_cast<double>(own), 64 << 20);
  job.zero_stage = 0;
  turns = StepOfStage(job, style, 0);
  EXPECT_EQ(turns[1][0], turns[1][1]);
  EXPECT_NEAR(static_cast<double>(turns[1][1]), 16.0 * static_cast<double>(own), 65536);
  style.gradient_type = DataType::kFloat32;
  EXPECT_EQ(StepOfStage(job, style, 0).size(), 1U);
}

TEST(StageMemory, sums_apart_are_beside_gradients_in_16_bit) {
  JobSpec job = PaperJob();
  TrainingStyle style = PaperStyle();
  style.gradient_type = DataType::kFloat32;
  const int64_t sums = BytesOf(job, style, MemoryUse::kGradients);
  style.separate_fp32_gradients = true;
  EXPECT_EQ(BytesOf(job, style, MemoryUse::kGradients), sums / 2 * 3);
}

TEST(StageMemory, the_composition_sums_to_the_peak) {
  JobSpec job = PaperJob();
  job.parallel.pp = 4;
  job.global_batch_size = 8 * job.micro_batch_size;
  for (int32_t stage = 0; stage < 4; ++stage) {
    const Result<StageMemory> memory = PredictStageMemory(job, PaperStyle(), stage);
    ASSERT_TRUE(memory.ok());
    int64_t sum = 0;
    for (const graph::MemoryClass& part : memory->at_peak) {
      sum += part.bytes;
    }
    EXPECT_EQ(sum, memory->peak_allocated);
    EXPECT_GE(memory->peak_reserved, memory->peak_allocated);
  }
}

using Row = std::map<std::string, std::string>;

std::vector<std::string> Fields(const std::string& line) {
  std::vector<std::string> fields(1);
  bool quoted = false;
  for (const char c : line) {
    if (c == '"') {
      quoted = !quoted;
    } else if (c == ',' && !quoted) {
      fields.emplace_back();
    } else {
      fields.back().push_back(c);
    }
  }
  return fields;
}

std::vector<Row> ReadRows(const std::string& path) {
  std::ifstream file(path);
  std::vector<Row> rows;
  std::string line;
  if (!std::getline(file, line)) {
    return rows;
  }
  const std::vector<std::string> header = Fields(line);
  while (std::getline(file, line)) {
    const std::vector<std::string> fields = Fields(line);
    for (size_t i = 0; i < header.size() && i < fields.size(); ++i) {
      if (i == 0) {
        rows.emplace_back();
      }
      rows.back()[header[i]] = fields[i];
    }
  }
  return rows;
}

JobSpec JobOf(Row row) {
  JobSpec job = PaperJob();
  const auto number = [&](const char* column) { return std::stoll(row[column]); };
  job.model.layers = number("layers");
  job.model.hidden = number("hidden");
  job.model.heads = job.model.kv_heads = number("heads");
  job.model.ffn = number("ffn");
  job.parallel.pp = static_cast<int32_t>(number("pp"));
  job.parallel.vpp = static_cast<int32_t>(number("vpp"));
  job.micro_batch_size = number("micro_batch");
  job.global_batch_size = number("global_batch");
  job.sequence_parallel = row["sp"] == "yes";
  job.recompute =
      row["recompute"] == "full"
          ? Recompute::kFull
          : (row["recompute"] == "selective" ? Recompute::kSelective : Recompute::kNone);
  return job;
}

TEST(StageMemory, activations_are_those_of_the_paper_within_one_percent) {
  const std::vector<Row> rows = ReadRows(PRISM_KORTHIKANTI_MEMORY);
  if (rows.empty()) {
    GTEST_SKIP() << "the table is not beside the sources";
  }
  int compared = 0;
  for (Row row : rows) {
    SCOPED_TRACE(row["id"]);
    const JobSpec job = JobOf(row);
    const double printed = std::stod(row["value"]);
    if (row["quantity"] == "activations on first stage") {
      const auto bytes = static_cast<double>(ActivationBytes(job, PaperStyle(), 0));
      EXPECT_NEAR(bytes / (1 << 30), printed, 0.01 * printed);
      ++compared;
    } else if (row["unit"] == "percent") {
      JobSpec baseline = job;
      baseline.sequence_parallel = false;
      baseline.recompute = Recompute::kNone;
      const double percent = 100.0 * static_cast<double>(ActivationBytes(job, PaperStyle(), 0)) /
                             static_cast<double>(ActivationBytes(baseline, PaperStyle(), 0));
      EXPECT_NEAR(percent, printed, 0.15) << "percent of the baseline, read off a figure";
      ++compared;
    }
  }
  EXPECT_GE(compared, 16);
}

}  // namespace
}  // namespace prism::replayer
