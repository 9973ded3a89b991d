#include "launch/accuracy/predictor.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "graph/base/parallel.h"
#include "graph/base/time.h"
#include "graph/job_program.h"
#include "launch/accuracy/row_cluster.h"
#include "replayer/stages/stage_replay.h"
#include "slicer/synthesize/synthesize.h"

namespace prism::launch {
namespace {

// A row's graph, ready to be evaluated with any parameters.
struct RowEvaluator {
  std::unique_ptr<graph::JobProgram> program;  // the evaluator points to it
  std::unique_ptr<replayer::StageEvaluator> evaluator;
  std::string failure;
};

RowEvaluator MakeEvaluator(const RowPlan& plan) {
  RowEvaluator row;
  if (!plan.cannot_predict.empty()) {
    row.failure = plan.cannot_predict;
    return row;
  }
  Result<graph::JobProgram> program = slicer::Synthesize(plan.job, plan.style);
  if (!program.ok()) {
    row.failure = program.status().message();
    return row;
  }
  row.program = std::make_unique<graph::JobProgram>(*std::move(program));
  Result<replayer::StageEvaluator> evaluator = replayer::StageEvaluator::Create(*row.program);
  if (!evaluator.ok()) {
    row.failure = evaluator.status().message();
    return row;
  }
  row.evaluator = std::make_unique<replayer::StageEvaluator>(*std::move(evaluator));
  return row;
}

// Seconds of an iteration with compute and transfers scaled; the interval is left at that time.
Result<RowPrediction> Evaluate(RowEvaluator& row,
                               const graph::ClusterSpec& cluster,
                               const replayer::StageReplayOptions& options) {
  PRISM_ASSIGN_OR_RETURN(const replayer::StageReplayResult result,
                         row.evaluator->Evaluate(cluster, options));
  const double outside = cluster.parameters.Value("host.iteration_ns") * 1e-9;
  const double seconds = SecondsFromNs(result.iteration_ns) + outside;
  return RowPrediction{seconds, seconds, seconds, !result.uneven.empty(), ""};
}

// Without a spread of assumptions the interval is left at the time itself.
Result<RowPrediction> PredictRow(RowEvaluator& row,
                                 const graph::ClusterSpec& cluster,
                                 std::optional<double> assumption_spread) {
  PRISM_ASSIGN_OR_RETURN(RowPrediction prediction, Evaluate(row, cluster, {}));
  if (!assumption_spread.has_value()) {
    return prediction;
  }
  // A time is the sum of what compute, transfers and the host give to it: what moves it with
  // compute alone is the share of compute, the rest that of transfers and the host.
  constexpr double kStep = 1.02;
  replayer::StageReplayOptions slower;
  slower.compute_scale = kStep;
  PRISM_ASSIGN_OR_RETURN(const RowPrediction slowed, Evaluate(row, cluster, slower));
  const double ratio = slowed.seconds / prediction.seconds;
  const double share = std::clamp((ratio - 1) / (kStep - 1), 0.0, 1.0);
  const double by_compute = share * cluster.parameters.Value("spread.compute");
  const double by_comm = (1 - share) * cluster.parameters.Value("spread.comm");
  const double noise = cluster.parameters.Value("spread.noise");
  const double width = std::sqrt(by_compute * by_compute + by_comm * by_comm + noise * noise +
                                 *assumption_spread * *assumption_spread);
  prediction.low_s = prediction.seconds / (1 + width);
  prediction.high_s = prediction.seconds * (1 + width);
  return prediction;
}

}  // namespace

class Predictor::Impl {
 public:
  explicit Impl(const std::vector<RowPlan>& plans) : plans_(plans), rows_(plans.size()) {
    ParallelFor(AvailableThreads(), static_cast<int64_t>(plans.size()), [&](int64_t i) {
      rows_[static_cast<size_t>(i)] = MakeEvaluator(plans_[static_cast<size_t>(i)]);
    });
  }

  Result<std::vector<RowPrediction>> Predict(const ProfileOverrides& overrides,
                                             bool with_intervals) {
    PRISM_RETURN_IF_ERROR(ComposeClusters(overrides));
    std::vector<RowPrediction> predictions(rows_.size());
    ParallelFor(AvailableThreads(), static_cast<int64_t>(rows_.size()), [&](int64_t i) {
      const auto index = static_cast<size_t>(i);
      predictions[index] = PredictOne(index, with_intervals);
    });
    return predictions;
  }

 private:
  Status ComposeClusters(const ProfileOverrides& overrides) {
    profiles_.clear();
    for (const RowPlan& plan : plans_) {
      const std::vector<std::string>& names = plan.cluster.profiles;
      if (!plan.cannot_predict.empty() || profiles_.contains(names)) {
        continue;
      }
      PRISM_ASSIGN_OR_RETURN(graph::ClusterSpec cluster, ComposeCluster(names, overrides));
      profiles_.emplace(names, std::move(cluster));
    }
    return OkStatus();
  }

  RowPrediction PredictOne(size_t index, bool with_intervals) {
    RowEvaluator& row = rows_[index];
    RowPrediction failed;
    if (!row.failure.empty()) {
      failed.failure = row.failure;
      return failed;
    }
    const RowCluster& where = plans_[index].cluster;
    graph::ClusterSpec cluster = profiles_.at(where.profiles);
    cluster.gpus_per_node = where.gpus_per_node;
    Result<RowPrediction> prediction =
        PredictRow(row, cluster,
                   with_intervals ? std::optional(plans_[index].assumption_spread) : std::nullopt);
    if (!prediction.ok()) {
      failed.failure = prediction.status().message();
      return failed;
    }
    return *std::move(prediction);
  }

  const std::vector<RowPlan>& plans_;
  std::vector<RowEvaluator> rows_;
  std::map<std::vector<std::string>, graph::ClusterSpec> profiles_;
};

Predictor::Predictor(const std::vector<RowPlan>& plans) : impl_(std::make_unique<Impl>(plans)) {
}

Predictor::Predictor(Predictor&&) noexcept = default;

Predictor::~Predictor() = default;

Result<std::vector<RowPrediction>> Predictor::Predict(const ProfileOverrides& overrides,
                                                      bool with_intervals) {
  return impl_->Predict(overrides, with_intervals);
}

}  // namespace prism::launch
