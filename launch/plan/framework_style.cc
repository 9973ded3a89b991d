#include "launch/plan/framework_style.h"

#include <algorithm>
#include <array>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "graph/base/divide.h"
#include "graph/base/intern.h"
#include "launch/plan/assumptions.h"
#include "slicer/synthesize/model_chunks.h"

namespace prism::launch {
namespace {

// tp, sequence parallelism, vpp, pp, experts, latent attention, ZeRO
constexpr uint32_t kKinds = 2 * 2 * 2 * 2 * 2 * 2 * 4;

// The families that --framework accepts. DeepSpeed's ZeRO-3, JAX and Hugging Face are used only for
// published rows.
constexpr auto kFamilies = std::to_array<FrameworkFamily>({
    FrameworkFamily::kMegatronLm,
    FrameworkFamily::kMegatronDeepSpeed,
    FrameworkFamily::kMegatronCore,
    FrameworkFamily::kMegaScale,
    FrameworkFamily::kFsdp,
    FrameworkFamily::kTorchtitan,
    FrameworkFamily::kNanotron,
});

std::optional<FrameworkFamily> FamilyNamed(const std::string& framework) {
  const auto* const found =
      std::find_if(kFamilies.begin(), kFamilies.end(),
                   [&](FrameworkFamily known) { return FrameworkName(known) == framework; });
  return found == kFamilies.end() ? std::nullopt : std::optional(*found);
}

graph::TrainingStyle UsualStyle(FrameworkFamily family, const graph::JobSpec& job) {
  return StyleOfFramework(family, UsualPrecision(family), job);
}

}  // namespace

const std::vector<std::string>& FrameworkNames() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const FrameworkFamily family : kFamilies) {
      all.push_back(FrameworkName(family));
    }
    return all;
  }();
  return names;
}

const std::vector<std::string>& PrecisionNames() {
  static const std::vector<std::string> names = {"bf16",      "fp16",  "fp32", "fp8",
                                                 "fp8-block", "mxfp8", "nvfp4"};
  return names;
}

Result<FrameworkStyle> FrameworkStyle::Create(const std::string& framework,
                                              const std::string& precision) {
  const std::optional<FrameworkFamily> family = FamilyNamed(framework);
  if (!family.has_value()) {
    return InvalidArgument(fmt::format("--framework: '{}' is unknown; choose one of {}", framework,
                                       fmt::join(FrameworkNames(), ", ")));
  }
  const std::vector<std::string>& precisions = PrecisionNames();
  if (!precision.empty() &&
      std::find(precisions.begin(), precisions.end(), precision) == precisions.end()) {
    return InvalidArgument(fmt::format("--precision: '{}' is unknown; choose one of {}", precision,
                                       fmt::join(precisions, ", ")));
  }
  return FrameworkStyle(*family, precision);
}

bool AlwaysShards(const std::string& framework) {
  graph::JobSpec unsharded;
  unsharded.zero_stage = 0;
  const std::optional<FrameworkFamily> family = FamilyNamed(framework);
  return family.has_value() &&
         UsualStyle(*family, unsharded).data_parallel == graph::DataParallelKind::kFsdp;
}

FrameworkReach ReachOfFramework(const std::string& framework) {
  const std::optional<FrameworkFamily> family = FamilyNamed(framework);
  if (family == FrameworkFamily::kMegatronLm) {
    return {.context_parallelism = false, .zero = 1, .zero_in_pipeline = 1};
  }
  if (family == FrameworkFamily::kMegatronDeepSpeed) {
    return {.context_parallelism = false, .interleaving = false, .zero_in_pipeline = 1};
  }
  if (family == FrameworkFamily::kNanotron) {
    return {.interleaving = false, .zero = 1, .zero_in_pipeline = 1};
  }
  return {};
}

bool KeepsGatheredInPipeline(const std::string& framework) {
  graph::JobSpec sharded;
  sharded.zero_stage = 3;
  sharded.parallel.pp = 2;
  const std::optional<FrameworkFamily> family = FamilyNamed(framework);
  return family.has_value() && !UsualStyle(*family, sharded).reshard_after_forward;
}

bool DealsOutLayers(const std::string& framework, const graph::JobSpec& job) {
  const int64_t chunks = int64_t{job.parallel.pp} * job.parallel.vpp;
  const std::optional<FrameworkFamily> family = FamilyNamed(framework);
  if (!family.has_value() || !UsualStyle(*family, job).layers_from_front) {
    return graph::LayersDivide(job.model.layers, chunks);
  }
  return DivideUp(job.model.layers, chunks) * (chunks - 1) < job.model.layers;
}

FrameworkStyle::FrameworkStyle(FrameworkFamily family, const std::string& precision)
    : family_(family) {
  const std::optional<graph::Precision> named = PrecisionNamed(precision);
  precision_ = named.value_or(UsualPrecision(family));
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
    styles_.push_back(StyleOfFramework(family_, precision_, job));
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
  GatherNarrowly(family_, &assumptions, &style);
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
  if (AlwaysShards(HostProfile()) && job.recompute == graph::Recompute::kSelective && !op_by_op) {
    assumptions.Add("recompute selective: the core of attention, not torch's selection op by op");
  }
  return assumptions.texts();
}

}  // namespace prism::launch
