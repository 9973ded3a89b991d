#include "slicer/synthesize/blocks/attention.h"

#include "slicer/synthesize/blocks/launch_rules.h"
#include "slicer/synthesize/blocks/unfused_attention.h"

namespace prism::slicer {
namespace {

using graph::AttentionKind;
using graph::GroupAxis;

graph::TensorShape HeadsOf(const RankShape& rank, int64_t heads, int64_t size) {
  return Tensor(rank.dtype, {rank.sequence, rank.batch, heads, size});
}

// As fused attention takes them.
graph::TensorShape Queries(const RankShape& rank) {
  return Tensor(rank.dtype, {rank.batch, rank.sequence, rank.heads, rank.head_size});
}

graph::TensorShape Keys(const RankShape& rank, int64_t keys) {
  return Tensor(rank.dtype, {rank.batch, keys, rank.kv_heads, rank.head_size});
}

graph::TensorShape Values(const RankShape& rank, int64_t keys) {
  return Tensor(rank.dtype, {rank.batch, keys, rank.kv_heads, rank.value_size});
}

graph::TensorShape Output(const RankShape& rank) {
  return Tensor(rank.dtype, {rank.batch, rank.sequence, rank.heads, rank.value_size});
}

// x · cos + rotate_half(x) · sin, as in launch/trainer/attention.cc and in Hugging Face's layers.
void EagerRotary(const RankShape& rank, int64_t heads, bool backward, BlockWriter* writer) {
  const graph::TensorShape whole = HeadsOf(rank, heads, rank.head_size);
  const graph::TensorShape half = HeadsOf(rank, heads, rank.head_size / 2);
  const graph::TensorShape table = Tensor(rank.dtype, {rank.sequence, 1, 1, rank.head_size});
  if (backward) {
    writer->Pointwise("aten::mul", {whole, table});
    writer->Pointwise("aten::mul", {whole, table});
    writer->Pointwise("aten::neg", {half});
    writer->Kernel("aten::cat", "CatArrayBatchedCopy", {half, half});
    writer->Pointwise("aten::add_", {whole, whole});
    return;
  }
  writer->Pointwise("aten::neg", {half});
  writer->Kernel("aten::cat", "CatArrayBatchedCopy", {half, half});
  writer->Pointwise("aten::mul", {whole, table});
  writer->Pointwise("aten::mul", {whole, table});
  writer->Pointwise("aten::add", {whole, whole});
}

void FusedRotary(const RankShape& rank, int64_t heads, bool backward, BlockWriter* writer) {
  const graph::TensorShape table =
      Tensor(DataType::kFloat32, {rank.sequence, 1, 1, rank.head_size});
  const graph::TensorShape rotated = HeadsOf(rank, heads, rank.head_size);
  writer->Fused(backward ? "rope_backward" : "rope", {rotated, rotated, table});
}

void Rotary(const RankShape& rank, bool backward, BlockWriter* writer) {
  if (!rank.rotary) {
    return;
  }
  if (rank.style.compiled) {
    const graph::TensorShape rotated = HeadsOf(rank, rank.heads + rank.kv_heads, rank.head_size);
    writer->Fused(backward ? "rope_backward" : "rope", {rotated, rotated});
    return;
  }
  const bool fused = rank.style.fused_rope && !rank.built_in;
  const auto apply = [&](int64_t heads) {
    fused ? FusedRotary(rank, heads, backward, writer) : EagerRotary(rank, heads, backward, writer);
  };
  // Autograd goes through them in reverse order.
  apply(backward ? rank.kv_heads : rank.heads);
  apply(backward ? rank.heads : rank.kv_heads);
}

// Names of ops and kernels in the libraries of fused attention.
struct FusedNames {
  const char* forward_op;
  const char* forward;
  const char* backward_op;
  const char* backward;
};

FusedNames NamesOf(AttentionKind kind) {
  switch (kind) {
    case AttentionKind::kCudnn:
      return {"transformer_engine::fused_attn_forward", "cudnn_flash_fprop",
              "transformer_engine::fused_attn_backward", "cudnn_flash_bprop"};
    case AttentionKind::kFlash1:
      return {"flash_attn::forward", "flash_v1_fwd_kernel", "flash_attn::backward",
              "flash_v1_bwd_kernel"};
    default:
      return {"aten::_flash_attention_forward", "flash_fwd_kernel",
              "aten::_flash_attention_backward", "flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel"};
  }
}

// One call of fused attention over `keys` keys per sequence.
void FusedForward(const RankShape& rank, int64_t keys, BlockWriter* writer) {
  const FusedNames names = NamesOf(rank.style.attention);
  const Tensors inputs = {Queries(rank), Keys(rank, keys), Values(rank, keys)};
  const FlashShape shape = {.batch_heads = rank.batch * rank.heads,
                            .queries = rank.sequence,
                            .keys = keys,
                            .head_size = rank.head_size};
  if (rank.style.attention == AttentionKind::kFlash && FlashSplitsKeys(shape)) {
    writer->Kernel(names.forward_op, "flash_fwd_splitkv_kernel", inputs);
    writer->Kernel(names.forward_op, "flash_fwd_splitkv_combine_kernel", inputs);
    return;
  }
  writer->Kernel(names.forward_op, names.forward, inputs);
}

void FusedBackward(const RankShape& rank, int64_t keys, BlockWriter* writer) {
  const graph::TensorShape output = Output(rank);
  const bool copies = rank.built_in && rank.batch > 1;
  if (copies) {
    // The output and its gradient, into batch-first order.
    writer->Pointwise("aten::copy_", {output, output});
    writer->Pointwise("aten::copy_", {output, output});
  }
  const Tensors inputs = {output,
                          Queries(rank),
                          Keys(rank, keys),
                          Values(rank, keys),
                          output,
                          Tensor(DataType::kFloat32, {rank.batch, rank.heads, rank.sequence}),
                          Tensor(DataType::kUnknown, {2}),
                          Tensor(DataType::kUnknown, {})};
  const FusedNames names = NamesOf(rank.style.attention);
  writer->Kernel(names.backward_op, "flash_bwd_dot_do_o_kernel", inputs);
  writer->Kernel(names.backward_op, names.backward, inputs);
  writer->Kernel(names.backward_op, "flash_bwd_convert_dq_kernel", inputs);
  if (rank.heads != rank.kv_heads && rank.style.attention != AttentionKind::kCudnn) {
    const graph::TensorShape grouped = Tensor(
        rank.dtype,
        {rank.batch, rank.sequence, rank.kv_heads, rank.heads / rank.kv_heads, rank.head_size});
    writer->Reduction("aten::sum", {grouped, Keys(rank, keys)});
    writer->Reduction("aten::sum", {grouped, Values(rank, keys)});
  }
}

// A call of the core on this rank's queries and `keys` keys, with whichever kernels.
void LocalForward(const RankShape& rank, BlockWriter* writer) {
  rank.style.attention == AttentionKind::kUnfused ? UnfusedForward(rank, writer)
                                                  : FusedForward(rank, rank.keys, writer);
}

void LocalBackward(const RankShape& rank, BlockWriter* writer) {
  rank.style.attention == AttentionKind::kUnfused ? UnfusedBackward(rank, writer)
                                                  : FusedBackward(rank, rank.keys, writer);
}

// The whole sequence for a part of the heads.
RankShape AfterAllToAll(const RankShape& rank) {
  RankShape whole = rank;
  const int64_t cp = rank.job.parallel.cp;
  whole.sequence = rank.sequence * cp;
  whole.heads = rank.heads / cp;
  whole.kv_heads = rank.kv_heads < cp ? 1 : rank.kv_heads / cp;
  return whole;
}

void Exchange(const RankShape& rank, int64_t width, BlockWriter* writer) {
  writer->Collective(GroupAxis::kContext, AllToAllOf(rank.dtype, rank.tokens() * width));
}

void UlyssesForward(const RankShape& rank, BlockWriter* writer) {
  Exchange(rank, rank.qkv_width(), writer);
  LocalForward(AfterAllToAll(rank), writer);
  Exchange(rank, rank.query_width(), writer);
}

void UlyssesBackward(const RankShape& rank, BlockWriter* writer) {
  Exchange(rank, rank.query_width(), writer);
  LocalBackward(AfterAllToAll(rank), writer);
  Exchange(rank, rank.qkv_width(), writer);
}

// One step of the ring: every rank passes on a part of the keys and values (in backward also their
// gradients). A ring all-gather over all ranks moves cp - 1 parts per rank, so one with this many
// bytes takes as long as one step.
PendingCollective PassOn(const RankShape& rank, int64_t tensors, BlockWriter* writer) {
  const int64_t cp = rank.job.parallel.cp;
  const int64_t part = tensors * rank.tokens() * rank.kv_heads * rank.head_size;
  return writer->Start(GroupAxis::kContext, AllGatherOf(rank.dtype, part * cp / (cp - 1)));
}

// The steps of a ring, of which all but the first and the last are equal.
template <typename WriteStep>
void RingSteps(int64_t cp, BlockWriter* writer, WriteStep write) {
  write(/*first=*/true, /*last=*/cp == 1);
  if (cp > 2) {
    const uint32_t second = writer->size();
    write(/*first=*/false, /*last=*/false);
    writer->Repeat(second, cp - 3);
  }
  if (cp > 1) {
    write(/*first=*/false, /*last=*/true);
  }
}

// Sequences are divided into 2 · cp pieces and every rank has one from each end, so that every step
// has the same work: half of queries × keys (Transformer Engine's AttnFuncWithCPAndKVP2P). The
// parts of the output are combined by their softmax statistics.
void RingForward(const RankShape& rank, BlockWriter* writer) {
  const graph::TensorShape output = Output(rank);
  RingSteps(rank.job.parallel.cp, writer, [&](bool first, bool last) {
    const PendingCollective next = last ? PendingCollective{} : PassOn(rank, 2, writer);
    FusedForward(rank, rank.sequence, writer);
    if (!first) {
      writer->Pointwise("aten::mul", {output});
      writer->Pointwise("aten::add_", {output, output});
    }
    writer->Wait(next);
  });
}

void RingBackward(const RankShape& rank, BlockWriter* writer) {
  const graph::TensorShape query = Queries(rank);
  RingSteps(rank.job.parallel.cp, writer, [&](bool first, bool last) {
    // Keys, values and the gradients accumulated for them so far.
    const PendingCollective next = PassOn(rank, last ? 2 : 4, writer);
    FusedBackward(rank, rank.sequence, writer);
    if (!first) {
      writer->Pointwise("aten::add_", {query, query});
    }
    writer->Wait(next);
  });
}

// Combines a step's part of the output with the others by the softmax statistics, in float32 and
// eagerly: cast, difference, product with a weight, difference (torch's _SDPAMerger).
void MergeInFloat(const graph::TensorShape& output, BlockWriter* writer) {
  graph::TensorShape wide = output;
  wide.dtype = DataType::kFloat32;
  writer->Pointwise("aten::_to_copy", {output, wide});
  writer->Pointwise("aten::sub", {wide, wide});
  writer->Pointwise("aten::mul", {wide});
  writer->Pointwise("aten::sub", {wide, wide});
}

// Keys and values of every query head, `parts` ranks' share; gradients travel in float32.
PendingCollective PassExpanded(const RankShape& rank,
                               DataType type,
                               int64_t parts,
                               BlockWriter* writer) {
  const int64_t cp = rank.job.parallel.cp;
  const int64_t part = 2 * rank.tokens() * rank.heads * rank.head_size;
  return writer->Start(GroupAxis::kContext, AllGatherOf(type, part * parts * cp / (cp - 1)));
}

// torch.distributed's context parallelism (_templated_ring_attention): all keys and values are
// gathered during the first step; gradients travel around the ring, each transfer concurrent with
// the next step.
void TorchRingForward(const RankShape& rank, BlockWriter* writer) {
  const int64_t cp = rank.job.parallel.cp;
  const PendingCollective keys = PassExpanded(rank, rank.dtype, cp - 1, writer);
  for (int64_t step = 0; step < cp; ++step) {
    FusedForward(rank, rank.sequence, writer);
    if (step == 0) {
      writer->Wait(keys);
    } else {
      MergeInFloat(Output(rank), writer);
    }
  }
}

void TorchRingBackward(const RankShape& rank, BlockWriter* writer) {
  const int64_t cp = rank.job.parallel.cp;
  graph::TensorShape query = Queries(rank);
  query.dtype = DataType::kFloat32;
  PendingCollective moved = PassExpanded(rank, rank.dtype, cp - 1, writer);
  for (int64_t step = 0; step < cp; ++step) {
    FusedBackward(rank, rank.sequence, writer);
    writer->Wait(moved);
    for (int32_t sum = 0; sum < 3; ++sum) {  // of queries, keys and values
      writer->Pointwise("aten::add_", {query, query});
    }
    moved = PassExpanded(rank, DataType::kFloat32, 1, writer);
  }
  writer->Wait(moved);
}

// Keys and values of the whole sequence, gathered beforehand (Llama 3: arXiv 2407.21783, section
// 3.3.2); their gradients are scattered back.
void GatherKeys(const RankShape& rank, BlockWriter* writer) {
  const int64_t count = 2 * rank.batch * rank.keys * rank.kv_heads * rank.head_size;
  writer->Collective(GroupAxis::kContext, AllGatherOf(rank.dtype, count));
}

void ScatterKeyGradients(const RankShape& rank, BlockWriter* writer) {
  const int64_t count = 2 * rank.batch * rank.keys * rank.kv_heads * rank.head_size;
  writer->Collective(GroupAxis::kContext, ReduceScatterOf(rank.dtype, count));
}

// The built-in workload exchanges the fused projection before splitting it (launch/trainer/
// context_parallel.cc), so everything that follows works on whole sequences.
bool ExchangesProjection(const RankShape& rank) {
  return rank.built_in && rank.job.parallel.cp > 1;
}

RankShape SplitShape(const RankShape& rank) {
  return ExchangesProjection(rank) ? AfterAllToAll(rank) : rank;
}

// `width` elements per token, over all heads.
void SequenceForHeads(const RankShape& rank, int64_t width, BlockWriter* writer) {
  const int64_t cp = rank.job.parallel.cp;
  const graph::TensorShape parts = Tensor(rank.dtype, {cp, rank.sequence, rank.batch, width / cp});
  writer->Pointwise("aten::copy_", {parts, parts});
  Exchange(rank, width, writer);
}

void HeadsForSequence(const RankShape& rank, int64_t width, BlockWriter* writer) {
  const int64_t cp = rank.job.parallel.cp;
  const graph::TensorShape parts = Tensor(rank.dtype, {rank.sequence, rank.batch, cp, width / cp});
  Exchange(rank, width, writer);
  writer->Pointwise("aten::copy_", {parts, parts});
}

}  // namespace

void SplitForward(const RankShape& local, BlockWriter* writer) {
  if (ExchangesProjection(local)) {
    SequenceForHeads(local, local.qkv_width(), writer);
  }
  const RankShape rank = SplitShape(local);
  const int64_t queries = rank.heads / rank.kv_heads;
  const bool gathers_heads = queries > 1 && rank.kv_heads > 1 && !rank.style.compiled;
  if (gathers_heads) {
    const graph::TensorShape grouped = HeadsOf(rank, rank.kv_heads, queries * rank.head_size);
    writer->Pointwise("aten::copy_", {grouped, grouped});
  }
  Rotary(rank, false, writer);
}

void SplitBackward(const RankShape& local, BlockWriter* writer) {
  const RankShape rank = SplitShape(local);
  Rotary(rank, true, writer);
  const int64_t queries = rank.heads / rank.kv_heads;
  const graph::TensorShape key_value = HeadsOf(rank, rank.kv_heads, rank.head_size);
  writer->Kernel("aten::cat", "CatArrayBatchedCopy",
                 {HeadsOf(rank, rank.kv_heads, queries * rank.head_size), key_value, key_value});
  if (ExchangesProjection(local)) {
    HeadsForSequence(local, local.qkv_width(), writer);
  }
}

void CoreForward(const RankShape& rank, BlockWriter* writer) {
  if (rank.job.parallel.cp == 1) {
    LocalForward(rank, writer);
  } else if (ExchangesProjection(rank)) {
    LocalForward(AfterAllToAll(rank), writer);
    HeadsForSequence(rank, rank.query_width(), writer);
  } else if (rank.style.cp_all_to_all) {
    UlyssesForward(rank, writer);
  } else if (rank.style.cp_all_gather) {
    GatherKeys(rank, writer);
    LocalForward(rank, writer);
  } else if (rank.style.cp_torch_ring) {
    TorchRingForward(rank, writer);
  } else {
    RingForward(rank, writer);
  }
}

void CoreBackward(const RankShape& rank, BlockWriter* writer) {
  const bool recomputes = rank.Recomputes(graph::kRecomputeCoreAttention);
  if (ExchangesProjection(rank)) {
    const RankShape whole = AfterAllToAll(rank);
    SequenceForHeads(rank, rank.query_width(), writer);
    if (recomputes) {
      LocalForward(whole, writer);  // the exchanged tensors are kept
    }
    LocalBackward(whole, writer);
    return;
  }
  if (recomputes) {
    CoreForward(rank, writer);
  }
  if (rank.job.parallel.cp == 1) {
    LocalBackward(rank, writer);
  } else if (rank.style.cp_all_to_all) {
    UlyssesBackward(rank, writer);
  } else if (rank.style.cp_all_gather) {
    GatherKeys(rank, writer);
    LocalBackward(rank, writer);
    ScatterKeyGradients(rank, writer);
  } else if (rank.style.cp_torch_ring) {
    TorchRingBackward(rank, writer);
  } else {
    RingBackward(rank, writer);
  }
}

}  // namespace prism::slicer
