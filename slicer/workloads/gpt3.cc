#include "slicer/workloads/gpt3.h"

#include <vector>

#include <fmt/format.h>

#include "graph/program/job_groups.h"
#include "slicer/workloads/kernel_time.h"
#include "slicer/workloads/pipeline.h"

namespace prism::slicer {
namespace {

using graph::CollectiveKind;
using graph::CollectiveShape;
using graph::GroupAxis;
using graph::MatmulShape;
using graph::ReduceOp;

// GPT-3 175B (Brown et al. 2020, table 2.1) with Megatron's layout and padded vocabulary.
constexpr int64_t kHidden = 12288;
constexpr int64_t kLayers = 96;
constexpr int64_t kHeads = 96;
constexpr int64_t kSequence = 2048;
constexpr int64_t kVocab = 50257;
constexpr int64_t kPaddedVocab = 51200;
constexpr int64_t kBytes = 2;  // bfloat16
constexpr int32_t kTp = 8;
constexpr int32_t kPp = 16;
constexpr int64_t kMicrobatches = 128;
constexpr int64_t kLayersPerStage = kLayers / kPp;
constexpr int64_t kActivation = kSequence * kHidden * kBytes;  // of one micro-batch, whole sequence

// One step of a pass: a kernel, or a collective over the tensor-parallel group.
struct Step {
  enum class Kind : uint8_t { kMatmul, kAttention, kMemory, kAllGather, kReduceScatter };
  Kind kind = Kind::kMemory;
  const char* name = "";
  MatmulShape matmul;
  double flops = 0;   // kAttention
  int64_t bytes = 0;  // kMemory: read and written; collectives: CollectiveShape::bytes
};

Step Matmul(int64_t m, int64_t n, int64_t k) {
  Step step;
  step.kind = Step::Kind::kMatmul;
  step.name = "gemm";
  step.matmul = {m, n, k, 1, DataType::kBfloat16, DataType::kBfloat16, true, false};
  return step;
}

Step Attention(const char* name, double share_of_forward) {
  // Both products of the core, causal, for this rank's heads.
  constexpr double kForward = 0.5 * 4.0 * kSequence * kSequence * (kHidden / kTp);
  return {Step::Kind::kAttention, name, {}, share_of_forward * kForward, 0};
}

Step Memory(const char* name, int64_t bytes) {
  return {Step::Kind::kMemory, name, {}, 0, bytes};
}

Step AllGather() {
  return {Step::Kind::kAllGather, "", {}, 0, kActivation};
}

Step ReduceScatter() {
  return {Step::Kind::kReduceScatter, "", {}, 0, kActivation};
}

// 16 kernels and 4 collectives.
std::vector<Step> KernelForward() {
  constexpr int64_t kSharded = kActivation / kTp;  // sequence-parallel part
  return {
      Memory("layer_norm", 2 * kSharded),
      AllGather(),
      Matmul(3 * kHidden / kTp, kSequence, kHidden),
      Memory("bias_add", 6 * kSharded),
      Memory("split_qkv", 6 * kSharded),
      Attention("flash_attention_forward", 1.0),
      Memory("contiguous", 2 * kSharded),
      Matmul(kHidden, kSequence, kHidden / kTp),
      ReduceScatter(),
      Memory("bias_add", 2 * kSharded),
      Memory("residual_add", 3 * kSharded),
      Memory("layer_norm", 2 * kSharded),
      AllGather(),
      Matmul(4 * kHidden / kTp, kSequence, kHidden),
      Memory("bias_add", 8 * kSharded),
      Memory("gelu", 8 * kSharded),
      Matmul(kHidden, kSequence, 4 * kHidden / kTp),
      ReduceScatter(),
      Memory("bias_add", 2 * kSharded),
      Memory("residual_add", 3 * kSharded),
  };
}

// Backward of a linear layer: data gradient, weight gradient, bias gradient, accumulation into the
// fp32 gradient buffer.
void AppendLinearBackward(int64_t out, int64_t in, bool column_parallel, std::vector<Step>& steps) {
  steps.push_back(AllGather());  // of the output gradient (row parallel) or of the saved input
  steps.push_back(Matmul(in, kSequence, out));
  if (column_parallel) {
    steps.push_back(ReduceScatter());
  }
  steps.push_back(Matmul(in, out, kSequence));
  steps.push_back(Memory("bias_gradient", kSequence * out * kBytes));
  steps.push_back(Memory("accumulate_gradient", in * out * (kBytes + 8)));
}

// 26 kernels and 6 collectives.
std::vector<Step> KernelBackward() {
  constexpr int64_t kSharded = kActivation / kTp;
  std::vector<Step> steps;
  AppendLinearBackward(kHidden, 4 * kHidden / kTp, false, steps);
  steps.push_back(Memory("gelu_backward", 12 * kSharded));
  AppendLinearBackward(4 * kHidden / kTp, kHidden, true, steps);
  steps.push_back(Memory("layer_norm_backward", 3 * kSharded));
  steps.push_back(Memory("layer_norm_weight_gradient", 2 * kSharded));
  steps.push_back(Memory("residual_add", 3 * kSharded));
  AppendLinearBackward(kHidden, kHidden / kTp, false, steps);
  steps.push_back(Memory("contiguous", 2 * kSharded));
  steps.push_back(Memory("flash_attention_dot", 2 * kSharded));
  steps.push_back(Attention("flash_attention_backward", 2.5));
  steps.push_back(Memory("flash_attention_convert", 3 * kSharded));
  steps.push_back(Memory("concat_qkv", 6 * kSharded));
  AppendLinearBackward(3 * kHidden / kTp, kHidden, true, steps);
  steps.push_back(Memory("layer_norm_backward", 3 * kSharded));
  return steps;
}

DurationNs TimeOf(const Step& step) {
  switch (step.kind) {
    case Step::Kind::kMatmul:
      return MatmulTime(step.matmul);
    case Step::Kind::kAttention:
      return MatmulTime(step.flops);
    case Step::Kind::kMemory:
      return MemoryTime(step.bytes);
    case Step::Kind::kAllGather:
    case Step::Kind::kReduceScatter:
      return 0;
  }
  return 0;
}

bool IsCollective(const Step& step) {
  return step.kind == Step::Kind::kAllGather || step.kind == Step::Kind::kReduceScatter;
}

CollectiveShape Shape(CollectiveKind kind, DataType dtype, int64_t bytes) {
  const bool reduces = kind == CollectiveKind::kReduceScatter || kind == CollectiveKind::kAllReduce;
  return {kind, dtype, reduces ? ReduceOp::kSum : ReduceOp::kNone, -1, bytes};
}

// Emits passes and the end of an iteration.
class Gpt3Body {
 public:
  Gpt3Body(Gpt3Detail detail, const graph::ParallelSizes& sizes)
      : detail_(detail),
        groups_(sizes, 0),
        forward_(KernelForward()),
        backward_(KernelBackward()) {}

  void Pass(ProgramBuilder& builder, Rank rank, const StageStep& pass) const {
    const bool forward = pass.kind == StepKind::kForward;
    const uint16_t tp = builder.CommSlot("tp", groups_.Members(GroupAxis::kTensor, rank));
    const int32_t stage = groups_.StageOf(rank);
    // Embedding before the first layer, logits and loss after the last one.
    if (stage == 0) {
      builder.Kernel(kComputeStream, forward ? "embedding" : "embedding_backward",
                     MemoryTime(2 * kActivation));
    }
    if (stage == kPp - 1) {
      const MatmulShape logits = {
          kPaddedVocab / kTp,  kSequence,           kHidden, forward ? 1 : 2,
          DataType::kBfloat16, DataType::kBfloat16, true,    false};
      builder.Kernel(kComputeStream, "gemm", MatmulTime(logits), logits);
    }
    const std::vector<Step>& steps = forward ? forward_ : backward_;
    for (int64_t layer = 0; layer < kLayersPerStage; ++layer) {
      EmitLayer(builder, tp, steps);
    }
  }

  // ZeRO 1: gradients to their shards in fp32, a step on the shard, parameters back in bf16; one
  // pair of collectives per layer.
  void Finish(ProgramBuilder& builder, Rank rank) const {
    const uint16_t dp = builder.CommSlot("dp", groups_.Members(GroupAxis::kData, rank));
    constexpr int64_t kLayerParameters = 12 * kHidden * kHidden / kTp;
    builder.Order(kComputeStream, kDataParallelStream);
    for (int64_t layer = 0; layer < kLayersPerStage; ++layer) {
      builder.Collective(
          kDataParallelStream, dp,
          Shape(CollectiveKind::kReduceScatter, DataType::kFloat32, 4 * kLayerParameters));
    }
    builder.Order(kDataParallelStream, kComputeStream);
    // Adam reads and writes gradient, master weight and two moments of the shard.
    builder.Kernel(
        kComputeStream, "adam",
        MemoryTime(28 * kLayerParameters * kLayersPerStage / groups_.Size(GroupAxis::kData)));
    builder.Order(kComputeStream, kDataParallelStream);
    for (int64_t layer = 0; layer < kLayersPerStage; ++layer) {
      builder.Collective(
          kDataParallelStream, dp,
          Shape(CollectiveKind::kAllGather, DataType::kBfloat16, kBytes * kLayerParameters));
    }
    builder.Order(kDataParallelStream, kComputeStream);
  }

 private:
  // At layer detail the kernels of each half of a pass become one.
  void EmitLayer(ProgramBuilder& builder, uint16_t tp, const std::vector<Step>& steps) const {
    const size_t half = steps.size() / 2;
    DurationNs collected = 0;
    for (size_t i = 0; i < steps.size(); ++i) {
      const Step& step = steps[i];
      if (IsCollective(step)) {
        const bool gathers = step.kind == Step::Kind::kAllGather;
        builder.Collective(
            kComputeStream, tp,
            Shape(gathers ? CollectiveKind::kAllGather : CollectiveKind::kReduceScatter,
                  DataType::kBfloat16, step.bytes));
      } else if (detail_ == Gpt3Detail::kKernel) {
        builder.Kernel(kComputeStream, step.name, TimeOf(step), step.matmul);
      } else {
        collected += TimeOf(step);
      }
      if (detail_ == Gpt3Detail::kLayer && (i + 1 == half || i + 1 == steps.size())) {
        builder.Kernel(kComputeStream, "half_layer", collected);
        collected = 0;
      }
    }
  }

  Gpt3Detail detail_;
  graph::JobGroups groups_;
  std::vector<Step> forward_;
  std::vector<Step> backward_;
};

graph::JobSpec Gpt3Job(int32_t ranks) {
  graph::JobSpec job;
  job.model.name = "gpt3-175b";
  job.model.source = "Brown et al. 2020, table 2.1";
  job.model.layers = kLayers;
  job.model.hidden = kHidden;
  job.model.heads = kHeads;
  job.model.kv_heads = kHeads;
  job.model.ffn = 4 * kHidden;
  job.model.vocab = kVocab;
  job.model.seq_len = kSequence;
  job.parallel.tp = kTp;
  job.parallel.pp = kPp;
  job.parallel.dp = ranks / (kTp * kPp);
  job.seq_len = kSequence;
  job.global_batch_size = kMicrobatches * job.parallel.dp;
  return job;
}

}  // namespace

Result<graph::Graph> MakeGpt3(Gpt3Detail detail, int32_t ranks) {
  if (ranks < kTp * kPp || ranks % (kTp * kPp) != 0) {
    return InvalidArgument(
        fmt::format("GPT-3 with tp {} and pp {} needs a multiple of {} ranks, not {}", kTp, kPp,
                    kTp * kPp, ranks));
  }
  graph::JobSpec job = Gpt3Job(ranks);
  job.name = detail == Gpt3Detail::kLayer ? "gpt3-layer" : "gpt3-kernel";
  const Gpt3Body emitter(detail, job.parallel);
  PipelineBody body;
  body.message_bytes = kActivation / kTp;
  body.pass = [&](ProgramBuilder& builder, Rank rank, const StageStep& pass) {
    emitter.Pass(builder, rank, pass);
  };
  body.finish = [&](ProgramBuilder& builder, Rank rank) { emitter.Finish(builder, rank); };
  return MakePipeline(job, body);
}

}  // namespace prism::slicer
