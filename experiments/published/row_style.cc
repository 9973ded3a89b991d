#include "experiments/published/row_style.h"

#include <charconv>
#include <optional>
#include <regex>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "experiments/published/row_arguments.h"

namespace prism::launch {
namespace {

using graph::TrainingStyle;

constexpr EnumNames<graph::Schedule, 3> kScheduleNames = {
    {{graph::Schedule::kZeroBubble, "zero-bubble"},
     {graph::Schedule::kLoopedBreadthFirst, "breadth-first"},
     {graph::Schedule::kGpipe, "gpipe"}}};

constexpr EnumNames<graph::AttentionKind, 3> kAttentionWords = {
    {{graph::AttentionKind::kFlash, "flash"},
     {graph::AttentionKind::kCudnn, "cudnn"},
     {graph::AttentionKind::kUnfused, "unfused"}}};

constexpr EnumNames<uint32_t, 3> kGraphPartNames = {{{graph::kGraphAttention, "attention"},
                                                     {graph::kGraphMlp, "mlp"},
                                                     {graph::kGraphRouter, "router"}}};

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
void ReadRelease(const PublishedRow& row, const graph::JobSpec& job, TrainingStyle* style) {
  const Framework& framework = FrameworkOfRow(row);
  if (framework == kMegatronLm) {
    // By the paper that a row is from.
    style->gradient_accumulation_fusion &= row.Is("of 2022");
    style->async_tp_all_reduce &= row.Is("of 2022");
    style->scatter_gather_p2p = !row.Is("of 2020");
  } else if (framework == kMegatronCore) {
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
      row.Assume("release: not stated, as of 2025", kSpread);
    }
  } else if ((framework == kFsdp || framework == kJax) && row.Is("fp32 sums")) {
    style->gradient_type = DataType::kFloat32;
  } else if (framework == kTorchtitan) {
    style->compiled = row.Flag("compile").value_or(false);
    style->host_cost = style->compiled ? graph::HostCost::kCompiled : graph::HostCost::kEager;
    // The loss was not compiled until 2025.
    style->fused_cross_entropy = style->compiled && row.Is("compiles loss") && !row.Is("of 2024");
    style->cp_all_gather = row.Is("llama 3 code");
    style->fsdp_root_has_ends = IsOlderThan(row, "2025-08");
    style->keeps_pipeline_outputs = IsOlderThan(row, "2025-11");
  }
}

// MegaScale's ablation: `step` techniques are added to Megatron-LM.
void ReadAblation(int64_t step, TrainingStyle* style) {
  style->parallel_block = step >= 1;
  style->tp_comm_overlap = step >= 3;
  style->overlap_p2p = step >= 4;
  style->overlap_grad_reduce = style->overlap_param_gather = step >= 5;
  style->attention = step >= 6 ? graph::AttentionKind::kFlash : graph::AttentionKind::kUnfused;
}

// 0 if the text begins with none.
int64_t LeadingNumber(const std::string& text) {
  int64_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

// Flags that say neither yes nor no, nor anything else that is known.
void NoteUnreadFlags(const PublishedRow& row) {
  constexpr double kSpread = 0.05;
  for (const char* column : {"sp", "dist_optimizer", "tp_comm_overlap", "dp_overlap", "compile"}) {
    if (!row.Knows(column)) {
      row.Assume(
          fmt::format("{}: '{}' is not known, taken as not stated", column, row.Text(column)),
          kSpread);
    }
  }
}

void ReadFlags(const PublishedRow& row, const graph::JobSpec& job, TrainingStyle* style) {
  if (const std::optional<bool> overlap = row.Flag("tp_comm_overlap")) {
    style->tp_comm_overlap = *overlap && job.parallel.tp > 1;
  }
  style->tp_comm_overlap |= row.Is("tensor-parallel overlap");
  if (const std::optional<bool> overlap = row.Flag("dp_overlap")) {
    style->overlap_grad_reduce = *overlap;
    style->overlap_param_gather = *overlap;
  } else if (row.Is("gradients overlap")) {
    style->overlap_grad_reduce = true;
    style->overlap_param_gather = row.Is("parameters overlap");
  }
  if (FrameworkOfRow(row) != kJax) {
    style->recompute_parts = RecomputePartsOfRow(row);
  }
  style->attention = row.Meant("attention", kAttentionWords).value_or(style->attention);
  style->chunked_head = row.Is("chunked head");
  style->moe_fused_dispatch |= row.Is("fused dispatch") && job.model.moe.experts > 0;
  if (row.Is("offloads activations")) {
    row.Assume("activations: in host memory between the passes, not counted here", 0.05);
  }
  style->frozen_weights = row.Is("adapters");
  style->adapters_of_all = row.Is("adapters of all");
  style->adapter_rank = IntegerArgument(row, "lora_rank", style->adapter_rank);
  style->adapter_sets = IntegerArgument(row, "max_concurrent_runs", style->adapter_sets);
  // MLPerf's benchmark drops 10%; NeMo's recipes nothing.
  style->adapter_dropout = style->frozen_weights && row.Is("mlperf");
  style->fp8_param_gather |= row.Is("8-bit gathers");
  if (row.Is("graph")) {
    style->host_cost = graph::HostCost::kGraph;
  }
}

void ReadSharding(const PublishedRow& row, int32_t replicas, TrainingStyle* style) {
  const bool is_fsdp = style->data_parallel == graph::DataParallelKind::kFsdp;
  if (is_fsdp && row.Is("shards in a node")) {
    const int64_t node = row.Integer("gpus_per_node").value_or(8);
    style->shard_size = static_cast<int32_t>(replicas % node == 0 ? node : 0);
  }
  if (row.Is("fsdp")) {
    style->data_parallel = graph::DataParallelKind::kFsdp;
  }
  const int64_t shards = LeadingNumber(row.Extra("fsdp"));
  if (style->data_parallel == graph::DataParallelKind::kFsdp && shards > 0 && shards < replicas &&
      replicas % shards == 0) {
    style->shard_size = static_cast<int32_t>(shards);
  }
}

void ReadRecipe(const PublishedRow& row, const graph::JobSpec& job, TrainingStyle* style) {
  const std::string recipe = RecipeOfRow(row);
  const PublishedRow with = row.WithRecipe(recipe);
  if (with.Is("graph")) {
    style->host_cost = graph::HostCost::kGraph;
  }
  if (with.Is("graph a layer")) {
    style->graph_parts |= with.Parts("graph part", kGraphPartNames);
  }
  if (job.model.moe.experts == 0) {
    return;
  }
  style->moe_drop_and_pad = row.Is("drops tokens");
  style->moe_fused_dispatch = with.Is("fused dispatch");
  style->moe_overlap = with.Is("experts overlap");
  if (recipe.empty() && row.Is("bridge") && !style->moe_drop_and_pad) {
    style->moe_fused_dispatch = true;
    row.Assume("dispatcher of experts: DeepEP or HybridEP, as most recipes have", kDispatchSpread);
  }
  const bool silent = row.Is("own scripts") && !StatesArguments(row) &&
                      !row.Is("names dispatcher") && recipe.empty();
  if (silent && job.parallel.ep > 1) {
    constexpr double kSpread = 0.2;
    row.Assume("dispatcher of experts: all-to-all, Megatron-Core's default", kSpread);
  }
}

}  // namespace

bool LacksFusedAttention(const PublishedRow& row, const graph::ModelSpec& model) {
  return model.latent.kv_rank > 0 && row.Is("blackwell") && OfReleaseBefore(row, 25, 7);
}

const Framework* KnownFramework(const PublishedRow& row) {
  return FrameworkNamed(row.Meaning("framework"));
}

const Framework& FrameworkOfRow(const PublishedRow& row) {
  const Framework* const known = KnownFramework(row);
  return known == nullptr ? kMegatronCore : *known;
}

graph::Precision PrecisionOfRow(const PublishedRow& row) {
  const std::optional<graph::Precision> named = PrecisionNamed(row.Text("precision"));
  const bool is_fp8 = named == graph::Precision::kFloat8 || named == graph::Precision::kFloat8Block;
  if (is_fp8 && row.Is("scale a row")) {
    constexpr double kSpread = 0.1;
    row.Assume("fp8 with a scale a row: at the rate of bf16, as its kernels of 2024", kSpread);
    return graph::Precision::kBfloat16;
  }
  if (named.has_value()) {
    return *named;
  }
  if (row.Is("mlperf") && row.Is("8-bit units")) {
    row.Assume("precision: fp8, as the other submissions of the benchmark");
    return graph::Precision::kFloat8;
  }
  if (row.Is("noted bf16")) {
    row.Assume("precision: bf16, as noted");
    return graph::Precision::kBfloat16;
  }
  const graph::Precision usual = FrameworkOfRow(row).precision;
  if (!row.Text("precision").empty()) {
    constexpr double kSpread = 0.3;
    row.Assume("precision: what is printed is not known", kSpread);
  }
  if (row.notes() != nullptr) {
    NotePrecision(usual, row.notes());
  }
  return usual;
}

TrainingStyle StyleOfRow(const PublishedRow& row, const graph::JobSpec& job) {
  const Framework& framework = FrameworkOfRow(row);
  TrainingStyle style = StyleOfFramework(framework, PrecisionOfRow(row), job);
  ReadRelease(row, job, &style);
  const bool implied =
      row.Text("precision").empty() && style.precision == graph::Precision::kBfloat16;
  if (framework == kMegatronDeepSpeed && (implied || row.Is("bf16 optimizer"))) {
    style.gradient_type = DataType::kFloat32;
    style.separate_fp32_gradients = true;
  }
  if (StatesArguments(row)) {
    ReadArguments(row, &style);
  }
  style.schedule = row.Meant("schedule", kScheduleNames).value_or(style.schedule);
  if (const std::optional<int64_t> step = row.Meant("ablation")) {
    ReadAblation(*step, &style);
  }
  ReadFlags(row, job, &style);
  ReadSharding(row, job.parallel.dp, &style);
  NoteUnreadFlags(row);
  if (framework == kMegatronCore) {
    ReadRecipe(row, job, &style);
    if (LacksFusedAttention(row, job.model)) {
      row.Assume("attention: unfused, as no library had kernels for these heads", 0.3);
    }
  }
  GatherNarrowly(framework, row.notes(), &style);
  if (row.Is("packed")) {
    style.packed_length = 256;  // of pairs of a question and an answer
    row.Assume("fine-tuning: packed sequences of about 256 tokens, which attend by themselves");
  }
  NoteNarrowSums(style, job, row.notes());
  return style;
}

}  // namespace prism::launch
