// How a current framework runs a plan: its defaults (launch/plan/frameworks/), as for a
// published run that states nothing else.
#pragma once

#include <string>
#include <vector>

#include "graph/base/status.h"
#include "graph/job/job.h"
#include "graph/job/training_style.h"
#include "launch/plan/frameworks/framework.h"

namespace prism::launch {

// Names that --precision takes.
const std::vector<std::string>& PrecisionNames();

class FrameworkStyle {
 public:
  // `precision`: "bf16", "fp16", "fp8", ...; empty: the framework's usual one. kInvalidArgument for
  // an unknown framework or precision.
  static Result<FrameworkStyle> Create(const std::string& framework, const std::string& precision);

  // The profile with its host costs: "megatron-core" in frameworks/.
  [[nodiscard]] std::string HostProfile() const { return std::string(framework_->name); }

  // The style depends only on the job's ZeRO and sequence parallelism, on whether tp, vpp and pp
  // are 1, and on whether the model has experts and latent attention.
  [[nodiscard]] const graph::TrainingStyle& Of(const graph::JobSpec& job) const;

  // Jobs with the same number have the same kernels in a layer, as far as the style determines
  // them.
  [[nodiscard]] uint32_t LayerStyleOf(const graph::JobSpec& job) const {
    return layer_styles_[KindOf(job)];
  }

  // What was assumed about it, one line each.
  [[nodiscard]] std::vector<std::string> Assumptions(const graph::JobSpec& job) const;

 private:
  FrameworkStyle(const Framework& framework, const std::string& precision);

  static size_t KindOf(const graph::JobSpec& job);

  const Framework* framework_;
  graph::Precision precision_;
  bool usual_precision_ = false;
  std::vector<graph::TrainingStyle> styles_;  // by kind of job
  std::vector<uint32_t> layer_styles_;        // likewise
};

}  // namespace prism::launch
