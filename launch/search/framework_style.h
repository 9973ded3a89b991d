// How a framework of today runs a plan: the defaults that launch/accuracy/row_style.h takes for a
// published run of that framework which states nothing else.
#pragma once

#include <string>
#include <vector>

#include "graph/base/status.h"
#include "graph/job.h"
#include "graph/training_style.h"
#include "launch/options/csv_table.h"

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

  // Of a job, the style depends on tp, sequence parallelism, vpp and ZeRO alone, and on the first
  // and third only as far as they are one.
  [[nodiscard]] const graph::TrainingStyle& Of(const graph::JobSpec& job) const;

  // What was assumed of it, one line each.
  [[nodiscard]] std::vector<std::string> Assumptions(const graph::JobSpec& job) const;

 private:
  explicit FrameworkStyle(CsvTable row);

  static size_t KindOf(const graph::JobSpec& job);

  CsvTable row_;                              // one row that states framework, GPU and precision
  std::vector<graph::TrainingStyle> styles_;  // by kind of job
};

}  // namespace prism::launch
