#include "launch/plan/framework_style.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "graph/base/data_type.h"

namespace prism::launch {

const std::vector<std::string>& PrecisionNames() {
  static const std::vector<std::string> names = {"bf16",      "fp16",  "fp32", "fp8",
                                                 "fp8-block", "mxfp8", "nvfp4"};
  return names;
}

Result<FrameworkStyle> FrameworkStyle::Create(const std::string& framework,
                                              const std::string& precision) {
  const Framework* const named = FrameworkNamed(framework);
  if (named == nullptr || !named->runs_plans) {
    return InvalidArgument(fmt::format("--framework: '{}' is unknown; choose one of {}", framework,
                                       fmt::join(FrameworkNames(), ", ")));
  }
  const std::vector<std::string>& precisions = PrecisionNames();
  const bool is_other_spelling = DataTypeNamed(precision) && PrecisionNamed(precision);
  if (!precision.empty() && !is_other_spelling &&
      std::find(precisions.begin(), precisions.end(), precision) == precisions.end()) {
    return InvalidArgument(fmt::format("--precision: '{}' is unknown; choose one of {}", precision,
                                       fmt::join(precisions, ", ")));
  }
  return FrameworkStyle(named, PrecisionNamed(precision));
}

std::vector<std::string> FrameworkStyle::Assumptions(const graph::JobSpec& job) const {
  launch::Assumptions assumptions;
  if (usual_precision_) {
    NotePrecision(precision_, &assumptions);
  }
  graph::TrainingStyle style = Of(job);
  GatherNarrowly(*framework_, &assumptions, &style);
  NoteNarrowSums(style, job, &assumptions);
  if (!NcclOfTime(*framework_).empty()) {
    assumptions.Add("NCCL: before 2.12, as in the framework's time, so without PXN");
  }
  if (framework_->sums_fp16_alone_narrowly && style.gradient_type == DataType::kFloat32) {
    assumptions.Add("gradients: accumulated and reduced in fp32, 4 bytes, as --bf16 turns on");
  }
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
