#include "experiments/published/predictor.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "graph/base/parallel.h"
#include "graph/program/job_program.h"
#include "launch/plan/job_time.h"
#include "replayer/stages/stage_replay.h"
#include "slicer/synthesize/synthesize.h"

#include "experiments/published/row_cluster.h"

namespace prism::launch {
namespace {

// A job as a row describes it, without the names that distinguish rows.
struct Job {
  graph::JobSpec spec;
  graph::TrainingStyle style;

  bool operator==(const Job&) const = default;
};

// `parameters`: those of the row's cluster, for the work of its framework's host thread.
Job JobOf(const RowPlan& plan, const graph::ParameterTable& parameters) {
  Job job = {plan.job, WithHostTimes(plan.job, plan.style, parameters)};
  job.spec.name.clear();
  job.spec.model.name.clear();
  job.spec.model.source.clear();
  return job;
}

// Rows of one job, and its graph, ready to be evaluated with any parameters.
struct JobEvaluator {
  std::vector<size_t> rows;
  std::unique_ptr<graph::JobProgram> program;  // referenced by the evaluator
  std::unique_ptr<replayer::StageEvaluator> evaluator;
  std::string failure;
};

Status MakeEvaluator(const Job& described, JobEvaluator* job) {
  PRISM_ASSIGN_OR_RETURN(
      graph::JobProgram program,
      slicer::Synthesize(described.spec, described.style, slicer::Markers::kNone));
  job->program = std::make_unique<graph::JobProgram>(std::move(program));
  PRISM_ASSIGN_OR_RETURN(replayer::StageEvaluator evaluator,
                         replayer::StageEvaluator::Create(*job->program));
  job->evaluator = std::make_unique<replayer::StageEvaluator>(std::move(evaluator));
  return OkStatus();
}

// Nodes smaller than those of the network's profile have at most one NIC per GPU.
void SetNodeSize(int32_t gpus, graph::ClusterSpec* cluster) {
  constexpr const char* kNics = "net.nics_per_node";
  cluster->gpus_per_node = gpus;
  cluster->parameters.SetValue(kNics, std::min<double>(cluster->parameters.Value(kNics), gpus));
}

}  // namespace

class Predictor::Impl {
 public:
  Impl(const std::vector<RowPlan>& plans, const PredictorOptions& options)
      : plans_(plans), options_(options) {
    profiles_fault_ = ComposeClusters({});
    if (!profiles_fault_.ok()) {
      return;
    }
    const std::vector<Job> jobs = FindJobs();
    OrderByWork(jobs);
    ParallelFor(options_.threads, static_cast<int64_t>(order_.size()), [&](int64_t i) {
      const size_t index = order_[static_cast<size_t>(i)];
      jobs_[index].failure = MakeEvaluator(jobs[index], &jobs_[index]).message();
    });
  }

  Result<std::vector<RowPrediction>> Predict(const ProfileOverrides& overrides,
                                             bool with_intervals) {
    PRISM_RETURN_IF_ERROR(profiles_fault_);
    PRISM_RETURN_IF_ERROR(ComposeClusters(overrides));
    std::vector<RowPrediction> predictions(plans_.size());
    for (size_t row = 0; row < plans_.size(); ++row) {
      predictions[row].failure = plans_[row].cannot_predict;
    }
    ParallelFor(options_.threads, static_cast<int64_t>(order_.size()), [&](int64_t i) {
      PredictJob(&jobs_[order_[static_cast<size_t>(i)]], with_intervals, &predictions);
    });
    return predictions;
  }

  [[nodiscard]] std::vector<size_t> Rows() const {
    std::vector<size_t> rows;
    for (const size_t index : order_) {
      rows.insert(rows.end(), jobs_[index].rows.begin(), jobs_[index].rows.end());
    }
    return rows;
  }

 private:
  // Where a job ran, and how long an iteration takes there.
  using Place = std::pair<std::vector<std::string>, int32_t>;  // profiles, GPUs of a node

  // Releases of a framework publish the same job repeatedly.
  std::vector<Job> FindJobs() {
    std::vector<Job> seen;
    for (size_t row = 0; row < plans_.size(); ++row) {
      if (!plans_[row].cannot_predict.empty()) {
        continue;
      }
      const RowPlan& plan = plans_[row];
      Job job = JobOf(plan, profiles_.at(plan.cluster.profiles).parameters);
      const auto found = std::ranges::find(seen, job);
      const auto index = static_cast<size_t>(found - seen.begin());
      if (found == seen.end()) {
        seen.push_back(std::move(job));
        jobs_.emplace_back();
      }
      jobs_[index].rows.push_back(row);
    }
    return seen;
  }

  // Longest first, so that no thread is left with a long one at the end; of this share alone.
  void OrderByWork(const std::vector<Job>& jobs) {
    const auto passes = [&](size_t index) {
      const graph::JobSpec& job = jobs[index].spec;
      return job.microbatches() * job.parallel.pp * std::max<int64_t>(1, job.parallel.vpp);
    };
    order_.resize(jobs.size());
    std::iota(order_.begin(), order_.end(), size_t{0});
    std::ranges::stable_sort(order_, [&](size_t a, size_t b) { return passes(a) > passes(b); });
    std::vector<size_t> own;
    for (auto i = options_.share; i < static_cast<int64_t>(order_.size()); i += options_.shares) {
      own.push_back(order_[static_cast<size_t>(i)]);
    }
    order_ = std::move(own);
  }

  Status ComposeClusters(const ProfileOverrides& overrides) {
    profiles_.clear();
    for (const RowPlan& plan : plans_) {
      const std::vector<std::string>& names = plan.cluster.profiles;
      if (!plan.cannot_predict.empty() || profiles_.contains(names)) {
        continue;
      }
      PRISM_ASSIGN_OR_RETURN(graph::ClusterSpec cluster, ComposeCluster(names, overrides));
      ApplySite(options_.site, "prism calibrate", &cluster);
      profiles_.emplace(names, std::move(cluster));
    }
    return OkStatus();
  }

  // Predicts all rows of a job; writes only to their predictions.
  void PredictJob(JobEvaluator* job,
                  bool with_intervals,
                  std::vector<RowPrediction>* predictions) const {
    std::map<Place, Result<JobTime>> times;
    for (const size_t row : job->rows) {
      RowPrediction& prediction = (*predictions)[row];
      prediction.failure = job->failure;
      if (!job->failure.empty()) {
        continue;
      }
      const RowCluster& where = plans_[row].cluster;
      const graph::ClusterSpec& profile = profiles_.at(where.profiles);
      const Place place = {where.profiles, where.gpus_per_node};
      auto found = times.find(place);
      if (found == times.end()) {
        graph::ClusterSpec cluster = profile;
        SetNodeSize(where.gpus_per_node, &cluster);
        const auto time_of = with_intervals ? TimeWithStalls : TimeOf;
        found = times
                    .emplace(place, time_of(*job->evaluator, {plans_[row].job, plans_[row].style},
                                            cluster))
                    .first;
      }
      const Result<JobTime>& time = found->second;
      if (!time.ok()) {
        prediction.failure = time.status().message();
      } else if (with_intervals) {
        const TimeInterval interval =
            IntervalOf(*time, profile.parameters, plans_[row].assumption_spread);
        prediction = {time->seconds,   interval.low_s, interval.high_s,
                      time->stalled_s, time->uneven,   ""};
      } else {
        prediction = {time->seconds, time->seconds, time->seconds, time->seconds, time->uneven, ""};
      }
    }
  }

  const std::vector<RowPlan>& plans_;
  const PredictorOptions options_;
  std::vector<JobEvaluator> jobs_;
  std::vector<size_t> order_;  // in which jobs are predicted
  Status profiles_fault_ = OkStatus();
  std::map<std::vector<std::string>, graph::ClusterSpec> profiles_;
};

Predictor::Predictor(const std::vector<RowPlan>& plans, const PredictorOptions& options)
    : impl_(std::make_unique<Impl>(plans, options)) {
}

Predictor::Predictor(Predictor&&) noexcept = default;

Predictor::~Predictor() = default;

Result<std::vector<RowPrediction>> Predictor::Predict(const ProfileOverrides& overrides,
                                                      bool with_intervals) {
  return impl_->Predict(overrides, with_intervals);
}

std::vector<size_t> Predictor::Rows() const {
  return impl_->Rows();
}

Result<std::vector<double>> SecondsAt(const Site& site, const std::vector<RowPlan>& plans) {
  PRISM_ASSIGN_OR_RETURN(const std::vector<RowPrediction> predictions,
                         Predictor(plans, {.site = site}).Predict({}, /*with_intervals=*/false));
  std::vector<double> seconds;
  for (size_t i = 0; i < plans.size(); ++i) {
    if (!predictions[i].failure.empty()) {
      return InvalidArgument(plans[i].id + ": " + predictions[i].failure);
    }
    seconds.push_back(predictions[i].seconds);
  }
  return seconds;
}

}  // namespace prism::launch
