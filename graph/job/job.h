// The job as numbers: model shape, layout and batch. Filled from options and presets by launch/,
// carried in the graph file, printed in summary.json.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "graph/base/data_type.h"

namespace prism::graph {

enum class Recompute : uint8_t { kNone, kSelective, kFull };

const char* RecomputeName(Recompute recompute);  // "none", "selective", "full"
std::optional<Recompute> RecomputeNamed(std::string_view name);

// kGpt: LayerNorm, biases, learned positions, GeLU. kLlama: RMSNorm, no biases, rotary positions,
// SwiGLU. kNemotron: LayerNorm, no biases, rotary positions, squared ReLU.
enum class BlockKind : uint8_t { kGpt, kLlama, kNemotron };

// The feed-forward part of a mixture of experts; experts 0: dense layers only.
struct MoeShape {
  int64_t experts = 0;            // routed ones of one layer
  int64_t topk = 0;               // routed experts of a token
  int64_t expert_ffn = 0;         // width of one routed expert
  int64_t shared_expert_ffn = 0;  // width of the expert that all tokens use; 0: none
  int64_t dense_layers = 0;       // first layers, with a dense feed-forward of ModelSpec::ffn
  bool biased = false;            // experts have biases and a SwiGLU with limits, as in GPT-OSS

  bool operator==(const MoeShape&) const = default;
};

// Multi-head latent attention (DeepSeek-V2: arXiv 2405.04434, section 2.1); kv_rank 0: none.
struct LatentAttention {
  int64_t q_rank = 0;     // width of the compressed query; 0: queries are not compressed
  int64_t kv_rank = 0;    // width of the compressed keys and values
  int64_t rope_dim = 0;   // of a head, carries positions, in addition to head_dim
  int64_t value_dim = 0;  // of a head

  bool operator==(const LatentAttention&) const = default;
};

// Transformer shape. Lengths in elements.
struct ModelSpec {
  std::string name;
  std::string source;  // public source of the shape
  BlockKind block = BlockKind::kGpt;
  int64_t layers = 0;
  int64_t hidden = 0;
  int64_t heads = 0;
  int64_t kv_heads = 0;  // equals heads for plain multi-head attention
  int64_t ffn = 0;       // width of the feed-forward layer (of one of the two branches in SwiGLU)
  int64_t vocab = 0;     // before padding
  int64_t seq_len = 0;   // default of the preset; JobSpec::seq_len is what runs
  bool tied_embeddings = true;
  int64_t head_dim = 0;        // 0: hidden / heads
  int64_t sliding_window = 0;  // window of every second layer; 0: all tokens
  MoeShape moe;
  LatentAttention latent;
  int64_t mtp_layers = 0;  // that predict further tokens (DeepSeek-V3: arXiv 2412.19437, 2.2), each
                           // with the logits of the head

  bool operator==(const ModelSpec&) const = default;

  [[nodiscard]] int64_t HeadDim() const {
    return head_dim != 0 || heads == 0 ? head_dim : hidden / heads;
  }
  [[nodiscard]] bool IsMoeLayer(int64_t layer) const {
    return moe.experts > 0 && layer >= moe.dense_layers;
  }
  // Matrices of a feed-forward layer or expert: SwiGLU has two branches.
  [[nodiscard]] int64_t FfnMatrices() const { return block == BlockKind::kLlama ? 3 : 2; }
};

// Degrees of parallelism. Rank order: tp fastest, then cp, dp, pp; ep inside dp.
struct ParallelSizes {
  int32_t tp = 1;
  int32_t cp = 1;
  int32_t dp = 1;
  int32_t pp = 1;
  int32_t ep = 1;
  int32_t vpp = 1;
  int32_t etp = 1;  // tensor parallel degree inside an expert

  [[nodiscard]] int64_t world_size() const { return int64_t{tp} * cp * dp * pp; }

  bool operator==(const ParallelSizes&) const = default;
};

// One axis of the grid that ranks form (graph/job/rank_grid.h).
struct GridAxis {
  std::string name;  // "tp", "dp", ..., unique
  int32_t size = 1;

  bool operator==(const GridAxis&) const = default;
};

// What was learned about a program while it was recorded.
struct ProgramFacts {
  std::string torch;                // version of its own; "": none, or nothing was recorded
  int32_t warmup_iterations = 0;    // run before the one that repeats
  std::string iteration_begin;      // what begins an iteration, in words
  int32_t steps_per_iteration = 1;  // how many such beginnings one iteration holds
  std::vector<GridAxis> axes;       // fastest first; empty where the layout defines them
  std::string checked;  // "ok", "fault": its ranks were compared (slicer/check); "": not

  bool operator==(const ProgramFacts&) const = default;
};

struct JobSpec {
  std::string name;  // "<model>" or the program's base name; part of the output folder's name
  bool user_program = false;  // true: model fields are unknown and FLOPs are null
  ModelSpec model;
  ParallelSizes parallel;
  bool sequence_parallel = true;
  int64_t micro_batch_size = 1;   // sequences
  int64_t global_batch_size = 1;  // sequences
  int64_t seq_len = 0;            // tokens
  Recompute recompute = Recompute::kNone;
  int32_t zero_stage = 1;
  DataType compute_dtype = DataType::kBfloat16;
  uint64_t seed = 0;
  ProgramFacts facts;  // of user programs; torch of the built-in one too

  // Micro-batches that one rank runs in an iteration.
  [[nodiscard]] int64_t microbatches() const {
    return global_batch_size / (micro_batch_size * parallel.dp);
  }

  [[nodiscard]] int64_t tokens_per_iteration() const { return global_batch_size * seq_len; }

  bool operator==(const JobSpec&) const = default;
};

// Transformer layers of one model chunk: the first, and one past the last.
struct LayerRange {
  int64_t begin = 0;
  int64_t end = 0;
};

// How `layers` are distributed over `chunks` = pp * vpp model chunks in forward order: evenly; or,
// where only layers + 2 is a multiple of chunks, with one layer fewer in the first and in the last
// chunk, which also hold embedding and head (Llama 3: arXiv 2407.21783, section 3.3.2).
// LayersDivide says whether either is possible. Where neither is, chunks differ by at most one
// layer, the last and then the first ones having fewer.
bool LayersDivide(int64_t layers, int64_t chunks);
LayerRange LayersOfChunk(int64_t layers, int64_t chunks, int64_t chunk);

// Rows of the word embedding: a multiple of 128 on every tensor-parallel rank, as Megatron pads.
int64_t PaddedVocab(const JobSpec& job);

// Parameters of the whole model, embeddings included (tied ones once), padding excluded.
int64_t ModelParameters(const ModelSpec& model);

// Model FLOPs of one iteration of the whole job: matrix products of forward and twice that for
// backward, attention (causal counted half) and logits included.
double ModelFlops(const JobSpec& job);

// Model FLOPs plus those of recomputation.
double HardwareFlops(const JobSpec& job);

}  // namespace prism::graph
