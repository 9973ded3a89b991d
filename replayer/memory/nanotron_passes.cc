#include "replayer/memory/nanotron_passes.h"

namespace prism::replayer {
namespace {

constexpr int64_t kFp32StateBytes = 4;
constexpr int64_t kTokenIdBytes = 8;

}  // namespace

NanotronPasses::NanotronPasses(const graph::JobSpec& job, const Part& part, MemoryAccount* account)
    : part_(part),
      is_split_(job.parallel.tp > 1),
      copies_outputs_(job.micro_batch_size > 1),
      ties_words_(job.model.tied_embeddings),
      account_(account) {
  const graph::ModelSpec& model = job.model;
  const int64_t element = DataTypeBytes(job.compute_dtype);
  const int64_t tp = job.parallel.tp;
  const int64_t tokens = job.micro_batch_size * job.seq_len / job.parallel.cp;
  const int64_t head = model.HeadDim();
  sizes_ = {.hidden = tokens * model.hidden * element / tp,
            .whole = tokens * model.hidden * element,
            .queries = tokens * model.heads * head * element / tp,
            .keys = tokens * model.kv_heads * head * element / tp,
            .ffn = tokens * model.ffn * element / tp,
            .softmax = tokens * model.heads * kFp32StateBytes / tp,
            .logits = tokens * model.vocab * element / tp,
            .token_ids = tokens * kTokenIdBytes};
  const int64_t column = model.hidden * element / tp;
  weights_ = {.norm = model.hidden * element,
              .qkv = (model.heads + 2 * model.kv_heads) * head * column,
              .projection = model.heads * head * column,
              .gate_up = 2 * model.ffn * column,
              .down = model.ffn * column,
              .words = model.vocab * column};
}

NanotronPasses::Block NanotronPasses::ReplaceBy(int64_t bytes, const Block& old) {
  const Block block = Take(bytes);
  Give(old);
  return block;
}

// All gathers write into one of two persistent buffers (MemoryBuffer).
void NanotronPasses::GatherInto(bool* has_buffer) {
  if (!is_split_) {
    return;
  }
  if (!*has_buffer) {
    Take(sizes_.whole);
    *has_buffer = true;
  }
  account_->IssueCollective(lead_);
}

// Scatters the partial sums of a row-parallel product; the input is freed at once.
NanotronPasses::Block NanotronPasses::Scatter(const Block& whole) {
  if (!is_split_) {
    return whole;
  }
  const Block part = Take(sizes_.hidden);
  account_->IssueCollective(lead_);
  account_->FreeBehindCollective(whole);
  return part;
}

// Rotary positions rotate the queries in place, which keeps alive what they are a view of: q, k and
// v permuted. Keys and values are joined and made contiguous for theirs.
NanotronPasses::Block NanotronPasses::ForwardAttention(Layer* layer) {
  layer->norm1 = Save(sizes_.hidden);
  GatherInto(&has_forward_buffer_);
  const int64_t qkv = sizes_.queries + 2 * sizes_.keys;
  const Block product = Take(qkv);
  layer->qkv = Save(qkv);
  const Block joined = Take(2 * sizes_.keys);
  layer->key_values = Save(2 * sizes_.keys);
  Give(joined);
  layer->attention = Save(sizes_.queries);
  layer->softmax = Save(sizes_.softmax);
  std::optional<Block> copy;
  if (copies_outputs_) {
    copy = Take(sizes_.queries);
  }
  const Block whole = Take(sizes_.whole);
  if (copy) {
    Give(*copy);
  }
  const Block output = Scatter(whole);
  Give(product);  // a local variable until here
  return output;
}

NanotronPasses::Block NanotronPasses::ForwardMlp(Layer* layer) {
  layer->norm2 = Save(sizes_.hidden);
  GatherInto(&has_forward_buffer_);
  layer->gate_up = Save(2 * sizes_.ffn);
  layer->silu = Save(sizes_.ffn);
  layer->product = Save(sizes_.ffn);
  return Scatter(Take(sizes_.whole));
}

// Cross entropy holds the float32 logits together with the copy that becomes their softmax in
// place.
void NanotronPasses::ForwardHead(const Block& hidden, MicroBatch* micro_batch) {
  micro_batch->output = hidden;
  micro_batch->norm = Save(sizes_.hidden);
  GatherInto(&has_forward_buffer_);
  const Block logits = Take(sizes_.logits);
  const Block in_float = Take(2 * sizes_.logits);
  Give(logits);
  micro_batch->softmax = Save(2 * sizes_.logits);
  Give(in_float);
}

void NanotronPasses::Forward() {
  MicroBatch& micro_batch = in_flight_.emplace_back();
  Block hidden;
  if (part_.is_first) {
    micro_batch.token_ids = Save(sizes_.token_ids);
    hidden = Take(sizes_.whole);
    if (is_split_) {
      hidden = Scatter(ReplaceBy(sizes_.whole, hidden));  // other ranks' tokens are masked
    }
  } else {
    hidden = Take(sizes_.hidden);  // received
  }
  for (int64_t i = 0; i < part_.layers; ++i) {
    Layer& layer = micro_batch.layers.emplace_back();
    layer.input = hidden;
    const Block attention = ForwardAttention(&layer);
    layer.middle = Save(sizes_.hidden);
    Give(attention);
    hidden = ReplaceBy(sizes_.hidden, ForwardMlp(&layer));
  }
  if (part_.is_last) {
    ForwardHead(hidden, &micro_batch);
  } else {
    micro_batch.output = hidden;
    micro_batch.has_output = true;
  }
}

void NanotronPasses::SendOutput() {
  MicroBatch& micro_batch = in_flight_.back();
  if (micro_batch.has_output) {
    Give(micro_batch.output);
    micro_batch.has_output = false;
  }
}

// Backward pass of a column-parallel product: gradients of its input, scattered while those of its
// weights are computed.
NanotronPasses::Block NanotronPasses::BackwardColumn(int64_t weight_bytes) {
  GatherInto(&has_forward_buffer_);
  const Block whole = Take(sizes_.whole);
  if (!is_split_) {
    TakeGradient(weight_bytes);
    return whole;
  }
  const Block part = Take(sizes_.hidden);
  account_->IssueCollective(lead_);
  TakeGradient(weight_bytes);
  account_->FreeBehindCollective(whole);
  return part;
}

// The softmax becomes the gradient in place; its 16-bit copy is passed on.
NanotronPasses::Block NanotronPasses::BackwardHead(const MicroBatch& micro_batch) {
  const Block logits = ReplaceBy(sizes_.logits, micro_batch.softmax);
  const Block product = BackwardColumn(weights_.words);
  Give(logits);
  Give(micro_batch.norm);
  const Block gradient = Take(sizes_.hidden);
  TakeGradient(weights_.norm);
  Give(product);
  Give(micro_batch.output);
  return gradient;
}

NanotronPasses::Block NanotronPasses::BackwardMlp(const Layer& layer, const Block& gradient) {
  GatherInto(&has_backward_buffer_);
  const Block product = Take(sizes_.ffn);
  TakeGradient(weights_.down);
  Give(layer.product);
  const Block silu = Take(sizes_.ffn);
  const Block up = ReplaceBy(sizes_.ffn, product);
  Give(layer.silu);
  const Block gate = ReplaceBy(sizes_.ffn, silu);
  const Block gate_up = ReplaceBy(2 * sizes_.ffn, gate);
  Give(up);
  Give(layer.gate_up);
  const Block column = BackwardColumn(weights_.gate_up);
  Give(gate_up);
  Give(layer.norm2);
  const Block norm = Take(sizes_.hidden);
  TakeGradient(weights_.norm);
  Give(column);
  Give(layer.middle);
  const Block sum = ReplaceBy(sizes_.hidden, norm);
  Give(gradient);
  return sum;
}

// flash-attn 2 accumulates the gradient of the queries in float32.
NanotronPasses::Block NanotronPasses::BackwardAttention(const Layer& layer, const Block& gradient) {
  GatherInto(&has_backward_buffer_);
  const Block output = Take(sizes_.queries);
  std::optional<Block> copy;
  if (copies_outputs_) {
    copy = Take(sizes_.queries);
  }
  TakeGradient(weights_.projection);
  if (copy) {
    Give(*copy);
  }
  const Block queries = Take(sizes_.queries);
  const Block keys = Take(sizes_.keys);
  const Block values = Take(sizes_.keys);
  const Block sums = Take(2 * sizes_.queries);
  Pass(sizes_.softmax);
  Give(sums);
  Give(output);
  Give(layer.qkv);
  Give(layer.attention);
  Give(layer.softmax);
  const Block key_values = ReplaceBy(2 * sizes_.keys, keys);
  Give(values);
  Give(layer.key_values);
  const int64_t qkv_bytes = sizes_.queries + 2 * sizes_.keys;
  const Block stacked = ReplaceBy(qkv_bytes, queries);
  Give(key_values);
  const Block qkv = ReplaceBy(qkv_bytes, stacked);
  const Block column = BackwardColumn(weights_.qkv);
  Give(qkv);
  Give(layer.norm1);
  const Block norm = Take(sizes_.hidden);
  TakeGradient(weights_.norm);
  Give(column);
  const Block sum = ReplaceBy(sizes_.hidden, norm);
  Give(gradient);
  Give(layer.input);
  return sum;
}

void NanotronPasses::BackwardEmbedding(const MicroBatch& micro_batch, const Block& gradient) {
  Block whole = gradient;
  if (is_split_) {
    whole = Take(sizes_.whole);
    account_->IssueCollective(lead_);
    Give(gradient);
    whole = ReplaceBy(sizes_.whole, whole);
  }
  if (part_.is_last && ties_words_) {
    Pass(weights_.words);  // added to the head's gradient
  } else {
    TakeGradient(weights_.words);
  }
  Give(whole);
  Give(micro_batch.token_ids);
}

void NanotronPasses::Backward() {
  const MicroBatch micro_batch = in_flight_.front();
  in_flight_.pop_front();
  Block gradient = part_.is_last ? BackwardHead(micro_batch) : Take(sizes_.hidden);
  for (auto layer = micro_batch.layers.rbegin(); layer != micro_batch.layers.rend(); ++layer) {
    gradient = BackwardAttention(*layer, BackwardMlp(*layer, gradient));
  }
  if (part_.is_first) {
    BackwardEmbedding(micro_batch, gradient);
  } else {
    Give(gradient);  // sent
  }
  for (const Block& block : gradients_) {
    Give(block);
  }
  gradients_.clear();
}

}  // namespace prism::replayer
