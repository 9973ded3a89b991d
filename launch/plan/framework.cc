#include "launch/plan/framework.h"

#include "graph/base/check.h"
#include "graph/base/lower_case.h"

namespace prism::launch {
namespace {

using graph::TrainingStyle;

// Megatron's layers of 2020 to 2022: fused kernels of Apex and its own, gradients in the format of
// the weights, every transfer waited for.
TrainingStyle EarlyMegatronStyle() {
  TrainingStyle style;
  style.attention = graph::AttentionKind::kUnfused;
  style.dropout = true;
  style.fused_bias_activation = true;
  style.fused_bias_dropout_add = true;
  style.fused_norm = true;
  style.gradient_accumulation_fusion = false;
  style.overlap_grad_reduce = false;
  style.scatter_gather_p2p = true;
  style.gradient_type = DataType::kFloat16;
  style.compiled_cross_entropy = true;  // exponentials are a new tensor in addition to the logits
  return style;
}

// DeepSpeed's pipeline engine partitions what it sends over tp, as Megatron does.
TrainingStyle MegatronDeepSpeedStyle() {
  TrainingStyle style = EarlyMegatronStyle();
  style.bucket_elements = 500'000'000;  // DeepSpeed: allreduce_bucket_size
  style.memory = graph::MemoryPattern::kDeepSpeed;
  return style;
}

TrainingStyle MegaScaleStyle() {
  TrainingStyle style;
  style.attention = graph::AttentionKind::kFlash;
  style.fused_bias_activation = true;
  style.fused_bias_dropout_add = true;
  style.fused_norm = true;
  style.parallel_block = true;
  style.tp_comm_overlap = true;
  style.overlap_p2p = true;
  style.overlap_grad_reduce = true;
  style.overlap_param_gather = true;
  style.gradient_type = DataType::kBfloat16;
  return style;
}

// Transformer Engine's kernels, and what recipes of NeMo and MLPerf submissions enable.
TrainingStyle MegatronCoreStyle(const graph::JobSpec& job) {
  TrainingStyle style;
  style.attention = graph::AttentionKind::kCudnn;
  style.fused_bias_activation = true;
  style.fused_bias_dropout_add = true;
  style.fused_norm = true;
  style.fused_rope = true;
  style.fused_cross_entropy = true;
  style.tp_comm_overlap = job.parallel.tp > 1 && job.sequence_parallel;
  style.overlap_p2p = job.parallel.vpp > 1;
  style.overlap_grad_reduce = true;
  style.overlap_param_gather = true;
  style.gradient_type = DataType::kBfloat16;
  // Most recipes with experts since 2025 use DeepEP or HybridEP and, if stages are interleaved,
  // overlap their transfers with the compute of another micro-batch.
  style.moe_fused_dispatch = job.model.moe.experts > 0;
  style.moe_overlap = job.model.moe.experts > 0 && job.parallel.vpp > 1;
  // Recipes of DeepSeek-V3, whose number of layers is prime, and of models with its shape.
  style.layers_from_front = job.model.moe.experts > 0 && job.model.latent.kv_rank > 0;
  return style;
}

TrainingStyle FsdpStyle() {
  TrainingStyle style;
  style.attention = graph::AttentionKind::kFlash1;  // llm-foundry in 2023: Triton
  style.gradient_accumulation_fusion = false;
  style.data_parallel = graph::DataParallelKind::kFsdp;
  style.overlap_grad_reduce = true;
  style.overlap_param_gather = true;
  style.gradient_type = DataType::kBfloat16;
  style.prefetch = 1;
  style.fsdp_root_has_ends = true;  // layers alone are wrapped
  return style;
}

TrainingStyle TorchtitanStyle() {
  TrainingStyle style = FsdpStyle();
  style.attention = graph::AttentionKind::kFlash;
  style.gradient_type = DataType::kFloat32;  // its mixed precision policy reduces in fp32
  style.fused_cross_entropy = false;
  style.cp_torch_ring = true;
  style.expandable_segments = true;
  style.fsdp_root_has_ends = false;
  style.recompute_parts = graph::kRecomputeEverySecondMatmul;
  return style;
}

TrainingStyle NanotronStyle(const graph::JobSpec& job) {
  TrainingStyle style;
  style.attention = graph::AttentionKind::kFlash;
  style.fused_norm = true;
  style.fused_rope = true;
  style.gradient_accumulation_fusion = false;
  style.async_tp_all_reduce = job.parallel.tp > 1;
  style.balanced_stages = true;
  style.serial_p2p = true;
  style.memory = graph::MemoryPattern::kNanotron;
  style.overlap_grad_reduce = true;
  style.gradient_type = DataType::kFloat32;
  style.bucket_elements = 25 * 1024 * 1024 / 2;  // DDP buckets of 25 MB of weights
  style.bucket_elements_per_rank = 0;
  return style;
}

TrainingStyle JaxStyle() {
  TrainingStyle style = FsdpStyle();
  style.attention = graph::AttentionKind::kCudnn;
  style.compiled = true;
  style.host_cost = graph::HostCost::kGraph;
  style.fp8_param_gather = true;  // XLA casts shards before it gathers them
  style.recompute_parts = uint32_t{graph::kRecomputeNorm} | uint32_t{graph::kRecomputeActivation} |
                          uint32_t{graph::kRecomputeMlp};
  return style;
}

TrainingStyle HuggingFaceStyle() {
  TrainingStyle style;
  style.attention = graph::AttentionKind::kUnfused;
  style.dropout = true;
  style.fused_norm = true;
  style.gradient_accumulation_fusion = false;
  return style;
}

TrainingStyle FamilyStyle(FrameworkFamily family, const graph::JobSpec& job) {
  switch (family) {
    case FrameworkFamily::kMegatronLm:
      return EarlyMegatronStyle();
    case FrameworkFamily::kMegatronDeepSpeed:
      return MegatronDeepSpeedStyle();
    case FrameworkFamily::kDeepSpeedZero: {
      TrainingStyle style = MegatronDeepSpeedStyle();
      style.data_parallel = graph::DataParallelKind::kFsdp;
      style.overlap_grad_reduce = true;
      style.overlap_param_gather = true;
      return style;
    }
    case FrameworkFamily::kMegaScale:
      return MegaScaleStyle();
    case FrameworkFamily::kMegatronCore:
      return MegatronCoreStyle(job);
    case FrameworkFamily::kFsdp:
      return FsdpStyle();
    case FrameworkFamily::kTorchtitan:
      return TorchtitanStyle();
    case FrameworkFamily::kNanotron:
      return NanotronStyle(job);
    case FrameworkFamily::kJax:
      return JaxStyle();
    case FrameworkFamily::kHuggingFace:
      return HuggingFaceStyle();
  }
  PRISM_CHECK(false);
}

// torchtitan always shards with FSDP, and its default policy keeps what a pipeline stage gathered
// for all its micro-batches.
void ApplyZeroStage(FrameworkFamily family, const graph::JobSpec& job, TrainingStyle* style) {
  const int32_t zero_stage = job.zero_stage;
  const bool is_torchtitan = family == FrameworkFamily::kTorchtitan;
  if (zero_stage == 3 || (zero_stage == 2 && is_torchtitan)) {
    style->data_parallel = graph::DataParallelKind::kFsdp;
  } else if (zero_stage == 2 && style->data_parallel == graph::DataParallelKind::kMegatron) {
    style->data_parallel = graph::DataParallelKind::kZero2;
  }
  style->reshard_after_forward = zero_stage == 3 && !(is_torchtitan && job.parallel.pp > 1);
}

}  // namespace

std::string FrameworkName(FrameworkFamily family) {
  switch (family) {
    case FrameworkFamily::kMegatronLm:
      return "megatron-lm";
    case FrameworkFamily::kMegatronDeepSpeed:
    case FrameworkFamily::kDeepSpeedZero:
      return "megatron-deepspeed";
    case FrameworkFamily::kMegaScale:
      return "megascale";
    case FrameworkFamily::kMegatronCore:
      return "megatron-core";
    case FrameworkFamily::kFsdp:
      return "fsdp";
    case FrameworkFamily::kTorchtitan:
      return "torchtitan";
    case FrameworkFamily::kNanotron:
      return "nanotron";
    case FrameworkFamily::kJax:
      return "jax";
    case FrameworkFamily::kHuggingFace:
      return "eager";
  }
  PRISM_CHECK(false);
}

std::optional<graph::Precision> PrecisionNamed(std::string_view text) {
  const std::string name = LowerCase(text);
  const auto says = [&](const char* word) { return name.find(word) != std::string::npos; };
  if (says("fp4")) {
    return graph::Precision::kNvFloat4;
  }
  if (says("mx")) {
    return graph::Precision::kMxFloat8;
  }
  if (says("fp8") || says("float8") || says("e4m3")) {
    return says("block") ? graph::Precision::kFloat8Block : graph::Precision::kFloat8;
  }
  if (says("bf16") || says("bfloat16")) {
    return graph::Precision::kBfloat16;
  }
  if (says("fp16") || says("float16") || says("half")) {
    return graph::Precision::kFloat16;
  }
  if (says("fp32") || says("float32")) {
    return graph::Precision::kFloat32;
  }
  return std::nullopt;
}

graph::Precision UsualPrecision(FrameworkFamily family) {
  const bool half = family == FrameworkFamily::kMegatronLm ||
                    family == FrameworkFamily::kMegatronDeepSpeed ||
                    family == FrameworkFamily::kDeepSpeedZero;
  return half ? graph::Precision::kFloat16 : graph::Precision::kBfloat16;
}

void NotePrecision(graph::Precision usual, Assumptions* assumptions) {
  assumptions->Add(usual == graph::Precision::kFloat16 ? "precision: fp16" : "precision: bf16");
}

TrainingStyle StyleOfFramework(FrameworkFamily family,
                               graph::Precision precision,
                               const graph::JobSpec& job) {
  TrainingStyle style = FamilyStyle(family, job);
  style.framework = FrameworkName(family);
  style.built_in = false;
  style.precision = precision;
  style.loss_scaling = precision == graph::Precision::kFloat16;
  if (precision == graph::Precision::kFloat32) {
    style.gradient_type = DataType::kFloat32;
  }
  ApplyZeroStage(family, job, &style);
  Assumptions unused;
  GatherNarrowly(family, &unused, &style);
  return style;
}

void GatherNarrowly(FrameworkFamily family, Assumptions* assumptions, TrainingStyle* style) {
  if (family == FrameworkFamily::kMegatronCore && style->precision == graph::Precision::kFloat8 &&
      style->data_parallel == graph::DataParallelKind::kFsdp) {
    style->fp8_param_gather = true;
    assumptions->Add("FSDP of 8-bit layers: weights kept and gathered in 8 bit");
  }
}

void NoteNarrowSums(const TrainingStyle& style,
                    const graph::JobSpec& job,
                    Assumptions* assumptions) {
  const bool is_wide = style.precision == graph::Precision::kBfloat16 ||
                       style.precision == graph::Precision::kFloat16 ||
                       style.precision == graph::Precision::kFloat32;
  if (style.tp_comm_overlap && !is_wide && job.parallel.tp > 1) {
    assumptions->Add("partial sums of 8-bit products: travel in 8 bit");
  }
}

}  // namespace prism::launch
