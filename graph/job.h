// The job as numbers: model shape, layout and batch. Filled from options and presets by launch/,
// carried in the graph file, printed in summary.json.
#pragma once

#include <cstdint>
#include <string>

#include "graph/op.h"

namespace prism::graph {

enum class Recompute : uint8_t { kNone, kSelective, kFull };
enum class BlockKind : uint8_t { kGpt, kLlama };

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

  bool operator==(const ModelSpec&) const = default;
};

// Degrees of parallelism. Rank order: tp fastest, then cp, dp, pp; ep inside dp.
struct ParallelSizes {
  int32_t tp = 1;
  int32_t cp = 1;
  int32_t dp = 1;
  int32_t pp = 1;
  int32_t ep = 1;
  int32_t vpp = 1;

  [[nodiscard]] int64_t world_size() const { return int64_t{tp} * cp * dp * pp; }

  bool operator==(const ParallelSizes&) const = default;
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

  // Micro-batches that one rank runs in an iteration.
  [[nodiscard]] int64_t microbatches() const {
    return global_batch_size / (micro_batch_size * parallel.dp);
  }

  [[nodiscard]] int64_t tokens_per_iteration() const { return global_batch_size * seq_len; }

  bool operator==(const JobSpec&) const = default;
};

// Transformer layers of one model chunk, the first and one past the last.
struct LayerRange {
  int64_t begin = 0;
  int64_t end = 0;
};

// How `layers` fall to `chunks` = pp * vpp model chunks in forward order: evenly; or, where only
// layers + 2 is a multiple, with one layer fewer in the first and in the last chunk, which also
// hold embedding and head (Llama 3: arXiv 2407.21783, section 3.3.2). LayersDivide says whether
// either is possible; LayersOfChunk wants that it is.
bool LayersDivide(int64_t layers, int64_t chunks);
LayerRange LayersOfChunk(int64_t layers, int64_t chunks, int64_t chunk);

// Parameters of the whole model, embeddings included (tied ones once), padding excluded.
int64_t ModelParameters(const ModelSpec& model);

// Model FLOPs of one iteration of the whole job: matrix products of forward and twice that for
// backward, attention (causal counted half) and logits included.
double ModelFlops(const JobSpec& job);

// Model FLOPs plus those of recomputation.
double HardwareFlops(const JobSpec& job);

}  // namespace prism::graph
