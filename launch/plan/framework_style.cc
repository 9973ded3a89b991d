#include "launch/plan/framework_style.h"

#include <algorithm>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "graph/base/intern.h"
#include "launch/plan/assumptions.h"
#include "slicer/synthesize/model_chunks.h"

namespace prism::launch {
namespace {

// tp, sequence parallelism, vpp, pp, experts, latent attention, ZeRO
constexpr uint32_t kKinds = 2 * 2 * 2 * 2 * 2 * 2 * 4;

}  // namespace

const std::vector<std::string>& PrecisionNames() {
  static const std::vector<std::string> names = {"bf16",      "fp16",  "fp32", "fp8",
                                                 "fp8-block", "mxfp8", "nvfp4"};
  return names;
}

Result<FrameworkStyle> FrameworkStyle::Create(const std::string& framework,
                                              const std::string& precision) {
  const Framework* const named = FrameworkNamed(framework);
  if (named == nullptr) {
    return InvalidArgument(fmt::format("--framework: '{}' is unknown; choose one of {}", framework,
                                       fmt::join(FrameworkNames(), ", ")));
  }
  const std::vector<std::string>& precisions = PrecisionNames();
  if (!precision.empty() &&
      std::find(precisions.begin(), precisions.end(), precision) == precisions.end()) {
    return InvalidArgument(fmt::format("--precision: '{}' is unknown; choose one of {}", precision,
                                       fmt::join(precisions, ", ")));
  }
  return FrameworkStyle(*named, precision);
}

FrameworkStyle::FrameworkStyle(const Framework& framework, const std::string& precision)
    : framework_(&framework) {
  const std::optional<graph::Precision> named = PrecisionNamed(precision);
  precision_ = named.value_or(framework.precision);
  usual_precision_ = !named.has_value();
  for (uint32_t kind = 0; kind < kKinds; ++kind) {
    graph::JobSpec job;
    job.parallel.tp = (kind & 1U) != 0 ? 2 : 1;
    job.sequence_parallel = (kind & 2U) != 0;
    job.parallel.vpp = (kind & 4U) != 0 ? 2 : 1;
    job.parallel.pp = (kind & 8U) != 0 ? 2 : 1;
    job.model.moe.experts = (kind & 16U) != 0 ? 1 : 0;
    job.model.latent.kv_rank = (kind & 32U) != 0 ? 1 : 0;
    job.zero_stage = static_cast<int32_t>(kind / 64);
    styles_.push_back(StyleOfFramework(framework, precision_, job));
  }
  std::vector<graph::TrainingStyle> of_layers;
  for (const graph::TrainingStyle& style : styles_) {
    layer_styles_.push_back(InternValue(of_layers, slicer::UnitCache::UnitStyle(style)));
  }
}

size_t FrameworkStyle::KindOf(const graph::JobSpec& job) {
  return (job.parallel.tp > 1 ? 1U : 0U) + (job.sequence_parallel ? 2U : 0U) +
         (job.parallel.vpp > 1 ? 4U : 0U) + (job.parallel.pp > 1 ? 8U : 0U) +
         (job.model.moe.experts > 0 ? 16U : 0U) + (job.model.latent.kv_rank > 0 ? 32U : 0U) +
         64 * static_cast<size_t>(job.zero_stage);
}

const graph::TrainingStyle& FrameworkStyle::Of(const graph::JobSpec& job) const {
  return styles_[KindOf(job)];
}

std::vector<std::string> FrameworkStyle::Assumptions(const graph::JobSpec& job) const {
  launch::Assumptions assumptions;
  if (usual_precision_) {
    NotePrecision(precision_, &assumptions);
  }
  graph::TrainingStyle style = Of(job);
  GatherNarrowly(*framework_, &assumptions, &style);
  NoteNarrowSums(style, job, &assumptions);
  if (job.model.moe.experts > 0) {
    assumptions.Add(style.moe_fused_dispatch
                        ? "experts: whole on a rank, all equally busy; tokens sent by DeepEP or "
                          "HybridEP, beside compute where stages are interleaved, as most recipes "
                          "have"
                        : "experts: whole on a rank, all equally busy, tokens sent by an "
                          "all-to-all");
  }
  const bool op_by_op = (style.recompute_parts & graph::kRecomputeEverySecondMatmul) != 0;
  if (AlwaysShards(*framework_) && job.recompute == graph::Recompute::kSelective && !op_by_op) {
    assumptions.Add("recompute selective: the core of attention, not torch's selection op by op");
  }
  return assumptions.texts();
}

}  // namespace prism::launch
