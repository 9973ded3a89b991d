// What one rank holds of a transformer layer: lengths after tensor, sequence and context
// parallelism. Everything that the writers of kernels (slicer/synthesize/blocks/) need to know
// about a job, and what the tensors that a layer keeps in memory are measured by.
#pragma once

#include <cstdint>

#include "graph/job/job.h"
#include "graph/job/training_style.h"
#include "graph/program/signature.h"

namespace prism::graph {

struct RankShape {
  RankShape(const JobSpec& job_spec, const TrainingStyle& training_style);

  JobSpec job;
  TrainingStyle style;
  bool built_in = false;  // the workload of launch/trainer/, with its own kernels throughout
  bool llama = false;     // RMSNorm, no biases, SwiGLU
  bool rotary = false;
  bool layer_norm = false;  // LayerNorm, not RMSNorm
  bool sequence_parallel = false;
  bool tensor_parallel = false;

  DataType dtype = DataType::kBfloat16;    // activations, parameters
  DataType matmul = DataType::kBfloat16;   // factors of linear layers
  DataType gradient = DataType::kFloat32;  // accumulated

  int64_t batch = 0;     // sequences per micro-batch
  int64_t sequence = 0;  // tokens of a sequence on this rank (of its context-parallel part)
  int64_t shard = 0;     // of them, those outside tensor-parallel regions
  int64_t keys = 0;      // tokens of a sequence that its queries attend to
  int64_t hidden = 0;
  int64_t heads = 0;  // this rank's
  int64_t kv_heads = 0;
  int64_t head_size = 0;     // of queries and keys, including positions
  int64_t value_size = 0;    // of values
  int64_t ffn = 0;           // this rank's part of the width; of one branch in SwiGLU
  int64_t ffn_matrices = 0;  // 2, with SwiGLU 3
  int64_t vocab = 0;         // this rank's rows, padded

  [[nodiscard]] int64_t tokens() const { return sequence * batch; }
  // Whether the backward pass repeats this part of a layer (false if it repeats all of it).
  [[nodiscard]] bool Recomputes(RecomputePart part) const {
    return job.recompute == Recompute::kSelective && (style.recompute_parts & part) != 0;
  }

  [[nodiscard]] int64_t query_width() const { return heads * head_size; }
  [[nodiscard]] int64_t qkv_width() const { return (heads + 2 * kv_heads) * head_size; }

  // Activations [sequence, batch, width] as the layer holds them: outside tensor-parallel regions,
  // and inside.
  [[nodiscard]] TensorShape Outside(int64_t width) const { return {dtype, {shard, batch, width}}; }
  [[nodiscard]] TensorShape Inside(int64_t width) const {
    return {dtype, {sequence, batch, width}};
  }
};

}  // namespace prism::graph
