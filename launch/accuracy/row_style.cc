#include "launch/accuracy/row_style.h"

#include <array>
#include <charconv>
#include <optional>
#include <string_view>

#include "graph/base/check.h"
#include "launch/accuracy/row_recipe.h"

namespace prism::launch {
namespace {

using graph::TrainingStyle;

struct FamilyWord {
  std::string_view word;  // in the column framework, lower case
  FrameworkFamily family;
};

// The first word found decides.
constexpr auto kFamilyWords = std::to_array<FamilyWord>({
    {"hugging face", FrameworkFamily::kHuggingFace},
    {"accelerate", FrameworkFamily::kHuggingFace},
    {"megatron-deepspeed", FrameworkFamily::kMegatronDeepSpeed},
    {"megascale", FrameworkFamily::kMegaScale},
    {"zero", FrameworkFamily::kDeepSpeedZero},
    {"torchtitan", FrameworkFamily::kTorchtitan},
    {"meta", FrameworkFamily::kTorchtitan},
    {"foundry", FrameworkFamily::kFsdp},
    {"composer", FrameworkFamily::kFsdp},
    {"nanotron", FrameworkFamily::kNanotron},
    {"maxtext", FrameworkFamily::kJax},
    {"paxml", FrameworkFamily::kJax},
    {"jax", FrameworkFamily::kJax},
    {"nemo", FrameworkFamily::kMegatronCore},
    {"core", FrameworkFamily::kMegatronCore},
    {"bridge", FrameworkFamily::kMegatronCore},
    {"megatron", FrameworkFamily::kMegatronLm},
    {"fsdp", FrameworkFamily::kFsdp},
    {"deepspeed", FrameworkFamily::kDeepSpeedZero},
});

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
  style.gradient_type = graph::DataType::kFloat16;
  return style;
}

TrainingStyle MegatronLmStyle(const PublishedRow& row, const graph::JobSpec& job) {
  const bool of_2022 = row.Says("source_ref", "2205.05198");
  TrainingStyle style = EarlyMegatronStyle();
  style.gradient_accumulation_fusion = of_2022;
  style.async_tp_all_reduce = of_2022 && !job.sequence_parallel;
  style.scatter_gather_p2p = !row.Says("source_key", "2020");
  return style;
}

// DeepSpeed's pipeline engine partitions what it sends over tp, as Megatron does.
TrainingStyle MegatronDeepSpeedStyle() {
  TrainingStyle style = EarlyMegatronStyle();
  style.bucket_elements = 500'000'000;  // DeepSpeed: allreduce_bucket_size
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
  style.gradient_type = graph::DataType::kBfloat16;
  return style;
}

// Transformer Engine's kernels; what the recipes of NeMo and of MLPerf submissions turn on.
TrainingStyle MegatronCoreStyle(const PublishedRow& row, const graph::JobSpec& job) {
  TrainingStyle style;
  // Rows of releases up to 24.07 are as much slower as flash v2 is, the more so the longer their
  // sequences.
  style.attention =
      OfReleaseBefore(row, 24, 9) ? graph::AttentionKind::kFlash : graph::AttentionKind::kCudnn;
  if (LacksFusedAttention(row, job.model)) {
    style.attention = graph::AttentionKind::kUnfused;
  }
  style.fused_bias_activation = true;
  style.fused_bias_dropout_add = true;
  style.fused_norm = true;
  style.fused_rope = true;
  style.fused_cross_entropy = true;
  style.tp_comm_overlap = job.parallel.tp > 1 && job.sequence_parallel;
  style.overlap_p2p = job.parallel.vpp > 1;
  style.overlap_grad_reduce = true;
  style.overlap_param_gather = true;
  style.gradient_type = graph::DataType::kBfloat16;
  return style;
}

TrainingStyle FsdpStyle(const PublishedRow& row) {
  TrainingStyle style;
  style.attention = graph::AttentionKind::kFlash1;  // llm-foundry in 2023: Triton
  style.gradient_accumulation_fusion = false;
  style.data_parallel = graph::DataParallelKind::kFsdp;
  style.overlap_grad_reduce = true;
  style.overlap_param_gather = true;
  // Composer: PURE reduces in the format of the weights, DEFAULT in fp32.
  style.gradient_type =
      row.Says("precision", "default") ? graph::DataType::kFloat32 : graph::DataType::kBfloat16;
  style.prefetch = 1;
  return style;
}

TrainingStyle TorchtitanStyle(const PublishedRow& row) {
  TrainingStyle style = FsdpStyle(row);
  style.attention = graph::AttentionKind::kFlash;
  style.gradient_type = graph::DataType::kFloat32;  // its mixed precision policy reduces in fp32
  style.fused_cross_entropy = false;
  style.compiled = row.Flag("compile").value_or(false);
  style.host_cost = style.compiled ? graph::HostCost::kCompiled : graph::HostCost::kEager;
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
  style.overlap_grad_reduce = true;
  style.gradient_type = graph::DataType::kFloat32;
  style.bucket_elements = 25 * 1024 * 1024 / 2;  // DDP buckets of 25 MB of weights
  style.bucket_elements_per_rank = 0;
  return style;
}

TrainingStyle JaxStyle(const PublishedRow& row) {
  TrainingStyle style = FsdpStyle(row);
  style.attention = graph::AttentionKind::kCudnn;
  style.compiled = true;
  style.host_cost = graph::HostCost::kGraph;
  style.fp8_param_gather = true;  // XLA casts shards before it gathers them
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

TrainingStyle FamilyStyle(FrameworkFamily family,
                          const PublishedRow& row,
                          const graph::JobSpec& job) {
  switch (family) {
    case FrameworkFamily::kMegatronLm:
      return MegatronLmStyle(row, job);
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
      return MegatronCoreStyle(row, job);
    case FrameworkFamily::kFsdp:
      return FsdpStyle(row);
    case FrameworkFamily::kTorchtitan:
      return TorchtitanStyle(row);
    case FrameworkFamily::kNanotron:
      return NanotronStyle(job);
    case FrameworkFamily::kJax:
      return JaxStyle(row);
    case FrameworkFamily::kHuggingFace:
      return HuggingFaceStyle();
  }
  PRISM_CHECK(false);
}

// Parts that a selective recomputation names.
uint32_t RecomputeParts(const PublishedRow& row) {
  const std::string text = row.Lower("recompute");
  const auto says = [&](const char* word) { return text.find(word) != std::string::npos; };
  if (says("per-op")) {
    return graph::kRecomputeEverySecondMatmul;
  }
  if (says("(layer)")) {
    return graph::kRecomputeEverySecondLayer;
  }
  uint32_t parts = 0;
  parts |= says("norm") ? uint32_t{graph::kRecomputeNorm} : 0U;
  parts |= says("act") && !says("core_attn") ? uint32_t{graph::kRecomputeActivation} : 0U;
  parts |= says("moe_act") || says(" act") ? uint32_t{graph::kRecomputeActivation} : 0U;
  parts |= says("mlp") ? uint32_t{graph::kRecomputeMlp} : 0U;
  parts |= says("moe+") || says("moe)") || says("[moe") ? uint32_t{graph::kRecomputeMoe} : 0U;
  parts |= says("up_proj") ? uint32_t{graph::kRecomputeUpProjection} : 0U;
  parts |= says("core_attn") ? uint32_t{graph::kRecomputeCoreAttention} : 0U;
  return parts == 0 ? uint32_t{graph::kRecomputeCoreAttention} : parts;
}

void ReadSchedule(const PublishedRow& row, TrainingStyle* style) {
  const std::string schedule = LowerCase(row.Extra("schedule"));
  if (schedule.find("zero") != std::string::npos) {
    style->schedule = graph::Schedule::kZeroBubble;
  } else if (schedule.find("breadth") != std::string::npos) {
    style->schedule = graph::Schedule::kLoopedBreadthFirst;
  } else if (schedule.find("gpipe") != std::string::npos) {
    style->schedule = graph::Schedule::kGpipe;
  }
}

// MegaScale's ablation adds its techniques one by one to Megatron-LM.
void ReadAblation(const PublishedRow& row, TrainingStyle* style) {
  const std::string ablation = row.Extra("ablation");
  if (ablation.empty()) {
    return;
  }
  constexpr auto kSteps = std::to_array<std::string_view>(
      {"baseline", "parallel block", "sliding window", "tensor-parallel", "pipeline",
       "data-parallel", "efficient operators", "batch"});
  size_t step = 0;
  for (size_t i = 0; i < kSteps.size(); ++i) {
    step = LowerCase(ablation).find(kSteps[i]) != std::string::npos ? i : step;
  }
  style->parallel_block = step >= 1;
  style->tp_comm_overlap = step >= 3;
  style->overlap_p2p = step >= 4;
  style->overlap_grad_reduce = style->overlap_param_gather = step >= 5;
  style->attention = step >= 6 ? graph::AttentionKind::kFlash : graph::AttentionKind::kUnfused;
}

std::optional<int64_t> LeadingNumber(const std::string& text) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end != text.data() ? std::optional(number) : std::nullopt;
}

void ReadFlags(const PublishedRow& row, const graph::JobSpec& job, TrainingStyle* style) {
  if (const std::optional<bool> overlap = row.Flag("tp_comm_overlap")) {
    style->tp_comm_overlap = *overlap && job.parallel.tp > 1;
  }
  if (row.Says("tp_comm_overlap", "async")) {
    style->tp_comm_overlap = true;
  }
  if (const std::optional<bool> overlap = row.Flag("dp_overlap")) {
    style->overlap_grad_reduce = *overlap;
    style->overlap_param_gather = *overlap;
  }
  style->recompute_parts = RecomputeParts(row);
  if (FamilyOfRow(row) == FrameworkFamily::kJax) {
    style->recompute_parts = uint32_t{graph::kRecomputeNorm} |
                             uint32_t{graph::kRecomputeActivation} | uint32_t{graph::kRecomputeMlp};
  }
  style->frozen_weights = row.Says("run_kind", "lora") || row.Says("model", "lora");
  // MLPerf's benchmark drops a tenth; NeMo's recipes nothing.
  style->adapter_dropout = style->frozen_weights && row.Says("source_key", "mlperf");
  style->fp8_param_gather |= row.Says("precision", "fp8 all-gather");
  const std::string zero = row.Lower("zero_stage");
  if (zero.find("fsdp") != std::string::npos || zero.find("full_shard") != std::string::npos ||
      job.zero_stage == 3) {
    style->data_parallel = graph::DataParallelKind::kFsdp;
  } else if (job.zero_stage == 2 && style->data_parallel == graph::DataParallelKind::kMegatron) {
    style->data_parallel = graph::DataParallelKind::kZero2;
  }
  style->reshard_after_forward = job.zero_stage == 3;
  const std::optional<int64_t> shards = LeadingNumber(row.Extra("fsdp"));
  if (style->data_parallel == graph::DataParallelKind::kFsdp && shards.value_or(0) > 0 &&
      *shards < job.parallel.dp && job.parallel.dp % *shards == 0) {
    style->shard_size = static_cast<int32_t>(*shards);
  }
  if (row.Says("extra", "cuda_graph=1")) {
    style->host_cost = graph::HostCost::kGraph;
  }
}

void ReadRecipe(const PublishedRow& row,
                const graph::JobSpec& job,
                Assumptions* assumptions,
                TrainingStyle* style) {
  const RowRecipe recipe = RecipeOfRow(row, assumptions);
  if (recipe.Says("cuda_graph_impl=full_iteration") || row.Says("extra", "cuda_graph=1")) {
    style->host_cost = graph::HostCost::kGraph;
  }
  if (recipe.Says("cuda_graph_impl=transformer_engine")) {
    style->graph_parts |= recipe.Says("'attn'") ? uint32_t{graph::kGraphAttention} : 0U;
    style->graph_parts |= recipe.Says("scope=mlp") ? uint32_t{graph::kGraphMlp} : 0U;
    style->graph_parts |= recipe.Says("moe_router") ? uint32_t{graph::kGraphRouter} : 0U;
  }
  if (job.model.moe.experts == 0) {
    return;
  }
  style->layers_from_front = job.model.latent.kv_rank > 0;
  style->moe_drop_and_pad = row.Says("extra", "tokendrop");
  style->moe_fused_dispatch = recipe.Says("hybridep") || recipe.Says("deepep") ||
                              row.Says("extra", "deepep") || row.Says("extra", "hybridep");
  if (recipe.note.empty() && row.Says("framework", "bridge") && !style->moe_drop_and_pad) {
    style->moe_fused_dispatch = true;
    assumptions->Add("dispatcher of experts: DeepEP or HybridEP, as most recipes have", 0.1);
  }
  style->moe_overlap = recipe.Says("moe_a2a_overlap=true") || row.Says("extra", "1f1b overlap");
}

// NeMo's fine-tuning recipes pack question and answer pairs; MLPerf's documents fill a sequence.
int64_t PackedLengthOfRow(const PublishedRow& row, Assumptions* assumptions) {
  const bool packs = (row.Says("run_kind", "sft") || row.Says("run_kind", "lora")) &&
                     !row.Says("source_key", "mlperf");
  if (!packs) {
    return 0;
  }
  constexpr int64_t kPairs = 256;
  assumptions->Add("fine-tuning: packed sequences of about 256 tokens, which attend by themselves");
  return kPairs;
}

bool Has8BitUnits(const PublishedRow& row) {
  for (const char* word : {"h100", "h200", "gh200", "b200", "b300", "blackwell", "hopper", "l40"}) {
    if (row.Says("gpu", word)) {
      return true;
    }
  }
  return false;
}

}  // namespace

bool LacksFusedAttention(const PublishedRow& row, const graph::ModelSpec& model) {
  const bool blackwell = row.Says("gpu", "b200") || row.Says("gpu", "b300");
  return model.latent.kv_rank > 0 && blackwell && OfReleaseBefore(row, 25, 7);
}

std::optional<FrameworkFamily> KnownFamily(const PublishedRow& row) {
  const std::string framework = row.Lower("framework");
  for (const FamilyWord& entry : kFamilyWords) {
    if (framework.find(entry.word) != std::string::npos) {
      return entry.family;
    }
  }
  return std::nullopt;
}

FrameworkFamily FamilyOfRow(const PublishedRow& row) {
  return KnownFamily(row).value_or(FrameworkFamily::kMegatronCore);
}

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

graph::Precision PrecisionOfRow(const PublishedRow& row, Assumptions* assumptions) {
  const std::string text = row.Lower("precision");
  const auto says = [&](const char* word) { return text.find(word) != std::string::npos; };
  if (says("nvfp4") || says("fp4")) {
    return graph::Precision::kNvFloat4;
  }
  if (says("mxfp8") || says("fp8-mx") || says("mx")) {
    return graph::Precision::kMxFloat8;
  }
  if (says("fp8") && says("row")) {
    constexpr double kSpread = 0.1;
    assumptions->Add("fp8 with a scale a row: at the rate of bf16, as its kernels of 2024",
                     kSpread);
    return graph::Precision::kBfloat16;
  }
  if (says("fp8")) {
    return says("block") ? graph::Precision::kFloat8Block : graph::Precision::kFloat8;
  }
  if (says("bf16") || says("bfloat16")) {
    return graph::Precision::kBfloat16;
  }
  if (says("fp16") || says("half")) {
    return graph::Precision::kFloat16;
  }
  if (says("fp32") || says("float32")) {
    return graph::Precision::kFloat32;
  }
  if (row.Says("source_key", "mlperf") && Has8BitUnits(row)) {
    assumptions->Add("precision: fp8, as the other submissions of the benchmark");
    return graph::Precision::kFloat8;
  }
  if (row.Says("note", "bf16")) {
    assumptions->Add("precision: bf16, as noted");
    return graph::Precision::kBfloat16;
  }
  const FrameworkFamily family = FamilyOfRow(row);
  const bool half = family == FrameworkFamily::kMegatronLm ||
                    family == FrameworkFamily::kMegatronDeepSpeed ||
                    family == FrameworkFamily::kDeepSpeedZero;
  assumptions->Add(half ? "precision: fp16" : "precision: bf16");
  return half ? graph::Precision::kFloat16 : graph::Precision::kBfloat16;
}

graph::DataType ComputeType(graph::Precision precision) {
  switch (precision) {
    case graph::Precision::kFloat16:
      return graph::DataType::kFloat16;
    case graph::Precision::kFloat32:
      return graph::DataType::kFloat32;
    default:
      return graph::DataType::kBfloat16;
  }
}

TrainingStyle StyleOfRow(const PublishedRow& row,
                         const graph::JobSpec& job,
                         Assumptions* assumptions) {
  const FrameworkFamily family = FamilyOfRow(row);
  TrainingStyle style = FamilyStyle(family, row, job);
  style.framework = FrameworkName(family);
  style.precision = PrecisionOfRow(row, assumptions);
  const bool early =
      family == FrameworkFamily::kMegatronLm || family == FrameworkFamily::kMegatronDeepSpeed;
  if (early && row.Text("precision").empty() && style.precision == graph::Precision::kBfloat16) {
    style.gradient_type = graph::DataType::kFloat32;  // what Megatron-LM's --bf16 turns on
    style.separate_fp32_gradients = family == FrameworkFamily::kMegatronDeepSpeed;
  }
  if (family == FrameworkFamily::kMegatronDeepSpeed &&
      row.Says("note", "bf16 optimizer with unsharded fp32 gradient accumulation")) {
    style.gradient_type = graph::DataType::kFloat32;
    style.separate_fp32_gradients = true;
  }
  style.loss_scaling = style.precision == graph::Precision::kFloat16;
  if (style.precision == graph::Precision::kFloat32) {
    style.gradient_type = graph::DataType::kFloat32;
  }
  ReadSchedule(row, &style);
  ReadAblation(row, &style);
  ReadFlags(row, job, &style);
  if (family == FrameworkFamily::kMegatronCore) {
    ReadRecipe(row, job, assumptions, &style);
    if (LacksFusedAttention(row, job.model)) {
      assumptions->Add("attention: unfused, as no library had kernels for these heads", 0.3);
    }
  }
  if (family == FrameworkFamily::kMegatronCore && style.precision == graph::Precision::kFloat8 &&
      style.data_parallel == graph::DataParallelKind::kFsdp) {
    style.fp8_param_gather = true;
    assumptions->Add("FSDP of 8-bit layers: weights kept and gathered in 8 bit");
  }
  style.packed_length = PackedLengthOfRow(row, assumptions);
  const bool is_wide = style.precision == graph::Precision::kBfloat16 ||
                       style.precision == graph::Precision::kFloat16 ||
                       style.precision == graph::Precision::kFloat32;
  if (style.tp_comm_overlap && !is_wide && job.parallel.tp > 1) {
    assumptions->Add("partial sums of 8-bit products: travel in 8 bit");
  }
  return style;
}

}  // namespace prism::launch
