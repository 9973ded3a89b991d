// What kernels that are not fused keep besides: attention's softmax and the loss in float32.
#include "replayer/memory/layer_tensors.h"

#include <gtest/gtest.h>

namespace prism::replayer {
namespace {

// A GPT with that many heads a rank, on tp 8, whose attention is unfused.
graph::JobSpec JobOf(int64_t heads, int64_t sequences) {
  graph::JobSpec job;
  job.model.layers = 48;
  job.model.hidden = 6144;
  job.model.heads = job.model.kv_heads = 8 * heads;
  job.model.ffn = 4 * 6144;
  job.model.vocab = 51200;
  job.parallel.tp = 8;
  job.seq_len = 2048;
  job.micro_batch_size = job.global_batch_size = sequences;
  return job;
}

graph::TrainingStyle Style(bool fused_softmax) {
  graph::TrainingStyle style;
  style.built_in = false;
  style.attention = graph::AttentionKind::kUnfused;
  style.fused_softmax = fused_softmax;
  return style;
}

int64_t SavedBytes(const graph::JobSpec& job, bool fused_softmax) {
  return LayerTensors(job, Style(fused_softmax), 0).saved_bytes();
}

TEST(LayerTensors, softmax_of_pytorch_doubles_what_is_kept_of_it) {
  const graph::JobSpec job = JobOf(8, 4);
  const int64_t scores = job.seq_len * job.seq_len * 4 * 8;
  EXPECT_EQ(SavedBytes(job, false) - SavedBytes(job, true), 2 * scores);
}

TEST(LayerTensors, softmax_is_pytorchs_where_the_fused_kernel_cannot_take_the_scores) {
  const graph::JobSpec odd = JobOf(6, 1);
  EXPECT_EQ(SavedBytes(odd, true), SavedBytes(odd, false));
  const graph::JobSpec even = JobOf(6, 2);
  EXPECT_LT(SavedBytes(even, true), SavedBytes(even, false));
}

TEST(LayerTensors, a_head_in_chunks_keeps_no_logits) {
  graph::TrainingStyle style = Style(true);
  const int64_t logits = int64_t{2048} * 4 * 51200 / 8;
  const int64_t kept = HeadTensors(JobOf(8, 4), style).saved_bytes();
  style.chunked_head = true;
  const UnitTensors head = HeadTensors(JobOf(8, 4), style);
  EXPECT_EQ(kept - head.saved_bytes(), 4 * logits);
  EXPECT_EQ(head.backward[1].bytes, logits);  // float32 of 2,048 of 8,192 tokens
}

TEST(LayerTensors, compiled_loss_copies_the_logits) {
  graph::TrainingStyle style = Style(true);
  const size_t tensors = HeadTensors(JobOf(8, 4), style).forward.size();
  style.compiled_cross_entropy = true;
  EXPECT_EQ(HeadTensors(JobOf(8, 4), style).forward.size(), tensors + 1);
}

}  // namespace
}  // namespace prism::replayer
