// Predictions for many rows, again and again with other parameters: what a fit needs. Graphs are
// built once.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "graph/base/status.h"
#include "launch/accuracy/row_plan.h"
#include "launch/options/presets.h"

namespace prism::launch {

struct RowPrediction {
  double seconds = 0;
  double low_s = 0;
  double high_s = 0;
  double stalled_s = 0;  // where transfers stall that need not (replayer/cost/congestion.h)
  bool uneven = false;   // StageReplayResult names communicators that ranks of a stage do not share
  std::string failure;   // not empty: why there is none; the rest is 0 then
};

class Predictor {
 public:
  // `plans` outlive the predictor. Builds the graph of every row that describes a job.
  explicit Predictor(const std::vector<RowPlan>& plans);
  Predictor(Predictor&&) noexcept;
  ~Predictor();

  // One for each plan. `with_intervals` off leaves low_s and high_s at seconds. Fails when the
  // profiles with `overrides` are no cluster.
  Result<std::vector<RowPrediction>> Predict(const ProfileOverrides& overrides,
                                             bool with_intervals);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace prism::launch
