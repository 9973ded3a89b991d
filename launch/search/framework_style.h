// How a framework of today runs a plan: the defaults that launch/accuracy/row_style.h takes for a
// published run of that framework which states nothing else.
#pragma once

#include <string>
#include <vector>

#include "graph/base/status.h"
#include "graph/job.h"
#include "graph/training_style.h"
#include "launch/accuracy/csv_table.h"

namespace prism::launch {

// Names that --framework takes.
const std::vector<std::string>& FrameworkNames();

class FrameworkStyle {
 public:
  // `gpu`: as cudaGetDeviceProperties names it. `precision`: "bf16", "fp16", "fp8", ...; empty: the
  // framework's usual one. kInvalidArgument for an unknown framework.
  static Result<FrameworkStyle> Create(const std::string& framework,
                                       const std::string& gpu,
                                       const std::string& precision);

  // The profile with its host costs: "megatron-core" of frameworks/.
  [[nodiscard]] std::string HostProfile() const;

  [[nodiscard]] graph::TrainingStyle Of(const graph::JobSpec& job) const;

  // What was assumed of it, one line each.
  [[nodiscard]] std::vector<std::string> Assumptions(const graph::JobSpec& job) const;

 private:
  explicit FrameworkStyle(CsvTable row) : row_(std::move(row)) {}

  CsvTable row_;  // one row that states framework, GPU and precision
};

}  // namespace prism::launch
