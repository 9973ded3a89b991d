// Predictions for many rows, repeatedly with different parameters, as a fit needs them. Graphs are
// built once.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "graph/base/parallel.h"
#include "graph/base/status.h"
#include "launch/inputs/presets.h"

#include "experiments/published/calibration.h"
#include "experiments/published/row_plan.h"

namespace prism::launch {

struct RowPrediction {
  double seconds = 0;
  double low_s = 0;
  double high_s = 0;
  double stalled_s = 0;  // if transfers that may stall do (replayer/cost/congestion.h)
  bool uneven = false;   // StageReplayResult::uneven is not empty
  std::string failure;   // not empty: why there is no prediction; then the rest is 0
};

struct PredictorOptions {
  Site site = {};  // like its profiles
  // Every `shares`-th job from `share` on, for processes that divide the jobs among them; rows of
  // the others have no prediction.
  int64_t share = 0;
  int64_t shares = 1;
  int threads = AvailableThreads();
};

class Predictor {
 public:
  // `plans` outlive the predictor. Builds the graph of every row that describes a job.
  explicit Predictor(const std::vector<RowPlan>& plans, const PredictorOptions& options = {});
  Predictor(Predictor&&) noexcept;
  ~Predictor();

  // One for each plan. Without `with_intervals` low_s and high_s equal seconds. Fails if the
  // profiles with `overrides` do not make a valid cluster.
  Result<std::vector<RowPrediction>> Predict(const ProfileOverrides& overrides,
                                             bool with_intervals);

  // Rows of this share's jobs.
  [[nodiscard]] std::vector<size_t> Rows() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

// Seconds of rows that can all be predicted; kInvalidArgument, naming the row, if one cannot.
Result<std::vector<double>> SecondsAt(const Site& site, const std::vector<RowPlan>& plans);

}  // namespace prism::launch
