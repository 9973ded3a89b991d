#include "graph/program/rank_shape.h"

namespace prism::graph {
namespace {

// There is no 4-bit element type: such products are 8-bit ones under another name.
DataType MatmulType(Precision precision) {
  switch (precision) {
    case Precision::kFloat8:
    case Precision::kFloat8Block:
    case Precision::kMxFloat8:
    case Precision::kNvFloat4:
      return DataType::kFloat8;
    default:
      return ActivationType(precision);
  }
}

}  // namespace

RankShape::RankShape(const JobSpec& job_spec, const TrainingStyle& training_style)
    : job(job_spec), style(training_style) {
  const ModelSpec& model = job.model;
  const int64_t tp = job.parallel.tp;
  built_in = style.built_in;
  llama = model.block == BlockKind::kLlama;
  rotary = model.block != BlockKind::kGpt;
  layer_norm = !llama;
  tensor_parallel = tp > 1;
  sequence_parallel = tensor_parallel && job.sequence_parallel;

  dtype = built_in ? job.compute_dtype : ActivationType(style.precision);
  matmul = built_in ? job.compute_dtype : MatmulType(style.precision);
  gradient = style.gradient_type;

  batch = job.micro_batch_size;
  sequence = job.seq_len / job.parallel.cp;
  shard = sequence_parallel ? sequence / tp : sequence;
  keys = job.seq_len;
  hidden = model.hidden;
  heads = model.heads / tp;
  kv_heads = model.kv_heads < tp ? 1 : model.kv_heads / tp;
  head_size = model.HeadDim();
  value_size = head_size;
  if (model.latent.kv_rank > 0) {
    head_size += model.latent.rope_dim;
    value_size = model.latent.value_dim;
    kv_heads = heads;  // expanded for every head
  }
  style.fused_softmax = FusesSoftmax(style, batch * heads, keys);
  ffn = model.ffn / tp;
  ffn_matrices = model.FfnMatrices();
  vocab = PaddedVocab(job) / tp;
}

}  // namespace prism::graph
