#include "launch/plan/frameworks/framework.h"

#include <array>
#include <utility>

#include "graph/base/lower_case.h"

namespace prism::launch {
namespace {

using graph::TrainingStyle;

constexpr auto kFrameworks = std::to_array<const Framework*>({
    &kMegatronLm,
    &kMegatronDeepSpeed,
    &kMegatronCore,
    &kMegaScale,
    &kFsdp,
    &kTorchtitan,
    &kNanotron,
    &kDeepSpeedZero,
    &kJax,
    &kHuggingFace,
});

// The first word found decides.
constexpr auto kPrecisionWords = std::to_array<std::pair<std::string_view, graph::Precision>>({
    {"fp4", graph::Precision::kNvFloat4},
    {"mx", graph::Precision::kMxFloat8},
    {"fp8", graph::Precision::kFloat8},
    {"float8", graph::Precision::kFloat8},
    {"e4m3", graph::Precision::kFloat8},
    {"bf16", graph::Precision::kBfloat16},
    {"bfloat16", graph::Precision::kBfloat16},
    {"fp16", graph::Precision::kFloat16},
    {"float16", graph::Precision::kFloat16},
    {"half", graph::Precision::kFloat16},
    {"fp32", graph::Precision::kFloat32},
    {"float32", graph::Precision::kFloat32},
});

}  // namespace

std::span<const Framework* const> Frameworks() {
  return kFrameworks;
}

std::vector<std::string> FrameworkNames() {
  std::vector<std::string> names;
  for (const Framework* framework : kFrameworks) {
    if (framework->runs_plans) {
      names.emplace_back(framework->name);
    }
  }
  return names;
}

const Framework* FrameworkNamed(std::string_view name) {
  for (const Framework* framework : kFrameworks) {
    if (framework->name == name) {
      return framework;
    }
  }
  return nullptr;
}

std::string NcclOfTime(const Framework& framework) {
  constexpr int32_t kYearOfPxn = 2022;  // NCCL 2.12, in March
  return framework.last_year <= kYearOfPxn ? "nccl/2.10" : "";
}

int32_t NodeRanksOfExperts(const graph::ParallelSizes& sizes, int32_t gpus_per_node) {
  const int32_t ranks = std::max(1, gpus_per_node / sizes.etp);
  return sizes.ep % ranks == 0 || ranks >= sizes.ep ? std::min(ranks, sizes.ep) : 0;
}

bool AlwaysShards(const Framework& framework) {
  return framework.style({}).data_parallel == graph::DataParallelKind::kFsdp;
}

TrainingStyle StyleOfFramework(const Framework& framework,
                               graph::Precision precision,
                               const graph::JobSpec& job) {
  TrainingStyle style = framework.style(job);
  style.framework = framework.profile_name;
  style.built_in = false;
  style.precision = precision;
  style.loss_scaling = precision == graph::Precision::kFloat16;
  if (precision == graph::Precision::kFloat32 ||
      (framework.sums_fp16_alone_narrowly && precision != graph::Precision::kFloat16)) {
    style.gradient_type = DataType::kFloat32;
  }
  if (job.zero_stage == 3) {
    style.data_parallel = graph::DataParallelKind::kFsdp;
  } else if (job.zero_stage == 2 && style.data_parallel == graph::DataParallelKind::kMegatron) {
    style.data_parallel = graph::DataParallelKind::kZero2;
  }
  style.reshard_after_forward =
      job.zero_stage == 3 && !(framework.keeps_gathered_in_pipeline && job.parallel.pp > 1);
  Assumptions unused;
  GatherNarrowly(framework, &unused, &style);
  return style;
}

void GatherNarrowly(const Framework& framework, Assumptions* assumptions, TrainingStyle* style) {
  if (framework.gathers_8_bit && style->precision == graph::Precision::kFloat8 &&
      style->data_parallel == graph::DataParallelKind::kFsdp) {
    style->fp8_param_gather = true;
    assumptions->Add("FSDP of 8-bit layers: weights kept and gathered in 8 bit");
  }
}

std::optional<graph::Precision> PrecisionNamed(std::string_view text) {
  const std::string name = LowerCase(text);
  for (const auto& [word, precision] : kPrecisionWords) {
    if (name.find(word) != std::string::npos) {
      const bool block =
          precision == graph::Precision::kFloat8 && name.find("block") != std::string::npos;
      return block ? graph::Precision::kFloat8Block : precision;
    }
  }
  return std::nullopt;
}

void NotePrecision(graph::Precision usual, Assumptions* assumptions) {
  assumptions->Add(usual == graph::Precision::kFloat16 ? "precision: fp16" : "precision: bf16");
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
