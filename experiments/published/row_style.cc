#include "experiments/published/row_style.h"

#include <array>
#include <charconv>
#include <optional>
#include <regex>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "graph/base/lower_case.h"

#include "experiments/published/row_arguments.h"
#include "experiments/published/row_recipe.h"
#include "experiments/published/row_recompute.h"

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

// Megatron-LM's releases, by the paper that a row is from.
void ReadMegatronLmRelease(const PublishedRow& row,
                           const graph::JobSpec& job,
                           TrainingStyle* style) {
  const bool of_2022 = row.Says("source_ref", "2205.05198");
  style->gradient_accumulation_fusion = of_2022;
  style->async_tp_all_reduce = of_2022 && !job.sequence_parallel;
  style->scatter_gather_p2p = !row.IsFrom("2020");
}

// "2025-06" of "820504e (2025-06-12)" or of dev20250612, "2025" if there is no month: a date not
// adjacent to other letters or digits, unlike those in a commit's hash. "" if there is none.
std::string DateIn(const std::string& text) {
  static const std::regex date(
      "(?:^|dev|[^0-9a-z])(20[0-9]{2})(?:-?([0-9]{2}))?(?:-?[0-9]{2})?(?![0-9a-z])");
  std::smatch found;
  if (!std::regex_search(text, found, date)) {
    return "";
  }
  return found[2].matched ? found[1].str() + "-" + found[2].str() : found[1].str();
}

// Whether the version, or else the source, names a date before this one ("2025-08"); false if
// neither names one.
bool IsOlderThan(const PublishedRow& row, std::string_view date) {
  std::string named = DateIn(row.Lower("framework_version"));
  if (named.empty()) {
    named = DateIn(row.Lower("source_ref"));
  }
  return !named.empty() && named < date;
}

// Defaults of the framework that depend on its release, or on a column of their own.
void ReadRelease(const PublishedRow& row,
                 const graph::JobSpec& job,
                 Assumptions* assumptions,
                 TrainingStyle* style) {
  switch (FamilyOfRow(row)) {
    case FrameworkFamily::kMegatronLm:
      ReadMegatronLmRelease(row, job, style);
      break;
    case FrameworkFamily::kMegatronCore:
      // Rows of releases up to 24.07 are slower by as much as flash v2 is, increasingly so with
      // longer sequences.
      if (OfReleaseBefore(row, 24, 9)) {
        style->attention = graph::AttentionKind::kFlash;
      }
      if (LacksFusedAttention(row, job.model)) {
        style->attention = graph::AttentionKind::kUnfused;
      }
      if (row.Text("framework_version").empty() && job.model.moe.experts == 0) {
        constexpr double kSpread = 0.05;
        assumptions->Add("release: not stated, as of 2025", kSpread);
      }
      break;
    case FrameworkFamily::kFsdp:
    case FrameworkFamily::kJax:
      // Composer: PURE reduces in the format of the weights, DEFAULT in fp32.
      if (row.Says("precision", "default")) {
        style->gradient_type = DataType::kFloat32;
      }
      break;
    case FrameworkFamily::kTorchtitan:
      style->compiled = row.Flag("compile").value_or(false);
      style->host_cost = style->compiled ? graph::HostCost::kCompiled : graph::HostCost::kEager;
      // The loss was not compiled until 2025.
      style->fused_cross_entropy = style->compiled && !row.Says("framework_version", "2024");
      style->cp_all_gather = row.Says("framework", "meta");  // Llama 3's own code
      style->fsdp_root_has_ends = IsOlderThan(row, "2025-08");
      style->keeps_pipeline_outputs = IsOlderThan(row, "2025-11");
      break;
    default:
      break;
  }
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

// Flags that say neither yes nor no, nor any other word that is read.
void NoteUnreadFlags(const PublishedRow& row, Assumptions* assumptions) {
  constexpr double kSpread = 0.05;
  // Column, and a word in it that is read.
  constexpr auto kFlags = std::to_array<std::pair<const char*, const char*>>({
      {"sp", ""},
      {"dist_optimizer", ""},
      {"tp_comm_overlap", "async"},
      {"dp_overlap", "grad"},
      {"compile", ""},
  });
  for (const auto& [column, word] : kFlags) {
    const bool has_word = *word != '\0' && row.Says(column, word);
    if (!row.Flag(column).has_value() && !row.IsSilent(column) && !has_word) {
      assumptions->Add(
          fmt::format("{}: '{}' is not known, taken as not stated", column, row.Text(column)),
          kSpread);
    }
  }
}

void ReadFlags(const PublishedRow& row,
               const graph::JobSpec& job,
               Assumptions* assumptions,
               TrainingStyle* style) {
  if (const std::optional<bool> overlap = row.Flag("tp_comm_overlap")) {
    style->tp_comm_overlap = *overlap && job.parallel.tp > 1;
  }
  if (row.Says("tp_comm_overlap", "async")) {
    style->tp_comm_overlap = true;
  }
  if (const std::optional<bool> overlap = row.Flag("dp_overlap")) {
    style->overlap_grad_reduce = *overlap;
    style->overlap_param_gather = *overlap;
  } else if (row.Says("dp_overlap", "grad")) {
    style->overlap_grad_reduce = true;
    style->overlap_param_gather = row.Says("dp_overlap", "param");
  }
  if (FamilyOfRow(row) != FrameworkFamily::kJax) {
    style->recompute_parts = RecomputePartsOfRow(row, assumptions);
  }
  style->frozen_weights = row.Says("run_kind", "lora") || row.Says("model", "lora");
  // MLPerf's benchmark drops 10%; NeMo's recipes nothing.
  style->adapter_dropout = style->frozen_weights && row.IsFrom("mlperf");
  style->fp8_param_gather |= row.Says("precision", "fp8 all-gather");
  const std::string zero = row.Lower("zero_stage");
  const bool hybrid = zero.find("hybrid_shard") != std::string::npos;
  if (style->data_parallel == graph::DataParallelKind::kFsdp && hybrid) {
    const int64_t node = row.Integer("gpus_per_node").value_or(8);
    style->shard_size = static_cast<int32_t>(job.parallel.dp % node == 0 ? node : 0);
  }
  if (zero.find("fsdp") != std::string::npos || zero.find("full_shard") != std::string::npos) {
    style->data_parallel = graph::DataParallelKind::kFsdp;
  }
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
  style->moe_drop_and_pad =
      row.Says("extra", "tokendrop") || HasArgument(row, "moe-pad-expert-input-to-capacity");
  style->moe_fused_dispatch = recipe.Says("hybridep") || recipe.Says("deepep") ||
                              row.Says("extra", "deepep") || row.Says("extra", "hybridep");
  if (recipe.note.empty() && row.Says("framework", "bridge") && !style->moe_drop_and_pad) {
    style->moe_fused_dispatch = true;
    assumptions->Add("dispatcher of experts: DeepEP or HybridEP, as most recipes have",
                     kDispatchSpread);
  }
  const bool silent = RunsMegatronLmScripts(row) && !StatesArguments(row) &&
                      !row.Says("extra", "dispatcher") && recipe.note.empty();
  if (silent && job.parallel.ep > 1) {
    constexpr double kSpread = 0.2;
    assumptions->Add("dispatcher of experts: all-to-all, Megatron-Core's default", kSpread);
  }
  style->moe_overlap = recipe.Says("moe_a2a_overlap=true") || row.Says("extra", "1f1b overlap") ||
                       HasArgument(row, "overlap-moe-expert-parallel-comm");
}

// NeMo's fine-tuning recipes pack question and answer pairs; MLPerf's documents fill a sequence.
int64_t PackedLengthOfRow(const PublishedRow& row, Assumptions* assumptions) {
  const bool packs =
      (row.Says("run_kind", "sft") || row.Says("run_kind", "lora")) && !row.IsFrom("mlperf");
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

bool RunsMegatronLmScripts(const PublishedRow& row) {
  return row.Lower("framework").starts_with("megatron-core");
}

graph::Precision PrecisionOfRow(const PublishedRow& row, Assumptions* assumptions) {
  const std::optional<graph::Precision> named = PrecisionNamed(row.Text("precision"));
  const bool is_fp8 = named == graph::Precision::kFloat8 || named == graph::Precision::kFloat8Block;
  if (is_fp8 && row.Says("precision", "row")) {
    constexpr double kSpread = 0.1;
    assumptions->Add("fp8 with a scale a row: at the rate of bf16, as its kernels of 2024",
                     kSpread);
    return graph::Precision::kBfloat16;
  }
  if (named.has_value()) {
    return *named;
  }
  if (row.IsFrom("mlperf") && Has8BitUnits(row)) {
    assumptions->Add("precision: fp8, as the other submissions of the benchmark");
    return graph::Precision::kFloat8;
  }
  if (row.Says("note", "bf16")) {
    assumptions->Add("precision: bf16, as noted");
    return graph::Precision::kBfloat16;
  }
  const graph::Precision usual = FrameworkOf(FamilyOfRow(row)).precision;
  if (!row.Text("precision").empty()) {
    constexpr double kSpread = 0.3;
    assumptions->Add("precision: what is printed is not known", kSpread);
  }
  NotePrecision(usual, assumptions);
  return usual;
}

TrainingStyle StyleOfRow(const PublishedRow& row,
                         const graph::JobSpec& job,
                         Assumptions* assumptions) {
  const FrameworkFamily family = FamilyOfRow(row);
  TrainingStyle style =
      StyleOfFramework(FrameworkOf(family), PrecisionOfRow(row, assumptions), job);
  ReadRelease(row, job, assumptions, &style);
  const bool early =
      family == FrameworkFamily::kMegatronLm || family == FrameworkFamily::kMegatronDeepSpeed;
  if (early && row.Text("precision").empty() && style.precision == graph::Precision::kBfloat16) {
    style.gradient_type = DataType::kFloat32;  // implied by Megatron-LM's --bf16
    style.separate_fp32_gradients = family == FrameworkFamily::kMegatronDeepSpeed;
  }
  if (family == FrameworkFamily::kMegatronDeepSpeed &&
      row.Says("note", "bf16 optimizer with unsharded fp32 gradient accumulation")) {
    style.gradient_type = DataType::kFloat32;
    style.separate_fp32_gradients = true;
  }
  if (StatesArguments(row)) {
    ReadArguments(row, &style);
    NoteArguments(row, assumptions);
  }
  ReadSchedule(row, &style);
  ReadAblation(row, &style);
  ReadFlags(row, job, assumptions, &style);
  NoteUnreadFlags(row, assumptions);
  if (family == FrameworkFamily::kMegatronCore) {
    ReadRecipe(row, job, assumptions, &style);
    if (LacksFusedAttention(row, job.model)) {
      assumptions->Add("attention: unfused, as no library had kernels for these heads", 0.3);
    }
  }
  GatherNarrowly(FrameworkOf(family), assumptions, &style);
  style.packed_length = PackedLengthOfRow(row, assumptions);
  NoteNarrowSums(style, job, assumptions);
  return style;
}

}  // namespace prism::launch
