// How a current framework runs a plan: its defaults (launch/plan/frameworks/), as for a
// published run that states nothing else.
#pragma once

#include <optional>
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

  [[nodiscard]] graph::TrainingStyle Of(const graph::JobSpec& job) const {
    return StyleOfFramework(*framework_, precision_, job);
  }

  // What was assumed about it, one line each.
  [[nodiscard]] std::vector<std::string> Assumptions(const graph::JobSpec& job) const;

 private:
  FrameworkStyle(const Framework* framework, std::optional<graph::Precision> stated)
      : framework_(framework),
        precision_(stated.value_or(framework->precision)),
        usual_precision_(!stated.has_value()) {}

  const Framework* framework_;
  graph::Precision precision_;
  bool usual_precision_;
};

}  // namespace prism::launch
