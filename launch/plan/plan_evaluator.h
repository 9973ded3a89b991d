// The time and memory that a plan takes. Times are those of a replay of the whole pipeline
// (replayer/stages/), memory that of the simulated allocator on the stages that may need most
// (replayer/memory/stage_memory.h): the same path from a job to its numbers as for published runs
// (launch/plan/).
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "graph/base/status.h"
#include "launch/plan/framework_style.h"
#include "launch/plan/job_time.h"
#include "launch/plan/layer_time.h"
#include "launch/plan/plan.h"
#include "replayer/memory/device_memory.h"

namespace prism::launch {

using PlanMemory = replayer::FullestRank;

// All members may be called from several threads at once.
class PlanEvaluator {
 public:
  // Sets the host costs of the problem's cluster to those of its framework.
  static Result<PlanEvaluator> Create(SearchProblem problem, const std::string& precision);

  // The same on a cluster in which one number is changed: a parameter, "gpu.memory_bytes", or
  // "costs." or "host_memory." and a key of that table. kInvalidArgument for a key that the cluster
  // does not have, and for a value with which it cannot be used.
  [[nodiscard]] Result<PlanEvaluator> Varied(const std::string& key, double value) const;

  [[nodiscard]] const SearchProblem& problem() const { return problem_; }

  // The time of an iteration, by replay of the whole pipeline. Fails for a layout that the
  // framework does not have.
  [[nodiscard]] Result<JobTime> Time(const Plan& plan) const;

  // The same with stalled_s, which the interval needs; twice the work where transfers may stall.
  [[nodiscard]] Result<JobTime> TimeWithStalls(const Plan& plan) const;

  // A lower bound of an iteration in seconds: the layers of the last stage with the head, or of the
  // stage before it, for one micro-batch after the other, plus the first chunks of the earlier
  // stages in both directions. Equal layers are timed once.
  [[nodiscard]] double TimeFloor(const Plan& plan) const;

  // The interval of that time.
  [[nodiscard]] TimeInterval IntervalOf(const JobTime& time) const;

  // Fails for models whose memory is not described (PredictStageMemory).
  [[nodiscard]] Result<PlanMemory> Memory(const Plan& plan) const;

  // A lower bound of the bytes that the worst rank needs; 0 if memory is not described. Computed
  // once for all plans that keep the same states.
  [[nodiscard]] int64_t MemoryFloor(const Plan& plan) const;

  // How much of its device's and of its host's memory a rank may use. A cluster that states no host
  // memory has none, so plans that offload do not fit.
  [[nodiscard]] int64_t capacity_bytes() const { return problem_.cluster.gpu.memory_bytes; }
  [[nodiscard]] std::optional<int64_t> host_capacity_bytes() const;
  [[nodiscard]] bool Fits(const PlanMemory& memory) const {
    return memory.device_bytes <= capacity_bytes() &&
           memory.host_bytes <= host_capacity_bytes().value_or(0);
  }

  // `flops` of the job (graph::ModelFlops, or HardwareFlops with what is recomputed) over what the
  // GPUs could do in that time.
  [[nodiscard]] double Utilization(const Plan& plan,
                                   double iteration_s,
                                   double (*flops)(const graph::JobSpec& job)) const;

  // What was assumed, one line each: of model and framework, the cluster's parameters, its costs,
  // and its host memory.
  struct AssumptionLines {
    std::vector<std::string> framework;
    std::vector<std::string> parameters;
    std::vector<std::string> costs;
    std::vector<std::string> offload;  // for offload to host memory, if the plan has it
  };
  [[nodiscard]] AssumptionLines Assumptions(const Plan& plan) const;

  // A plan as a job, and how the framework runs it.
  struct Job {
    graph::JobSpec spec;
    graph::TrainingStyle style;
  };
  [[nodiscard]] Job Describe(const Plan& plan) const;

 private:
  PlanEvaluator(SearchProblem problem, FrameworkStyle style)
      : problem_(std::move(problem)), style_(std::move(style)) {}

  // Layers that have been timed, by what they depend on.
  struct LayerTimes {
    // Number of the style, tp, cp, ep, micro-batch, recomputation, sequence parallelism.
    using Key = std::tuple<uint32_t, int32_t, int32_t, int32_t, int64_t, graph::Recompute, bool>;
    std::mutex mutex;
    std::vector<graph::TrainingStyle> styles;  // distinct ones, as far as they determine a layer
    std::map<Key, BusyTimes> by_shape;
  };

  // Floors of memory, by WithStatesOf of the plan.
  struct MemoryFloors {
    std::mutex mutex;
    std::map<Plan, int64_t> by_states;
  };

  [[nodiscard]] int64_t StatesFloor(const Plan& plan) const;
  [[nodiscard]] Result<JobTime> TimeOfJob(const Plan& plan, bool stalls) const;
  [[nodiscard]] DurationNs CopyFloor(const Plan& plan, const Job& job) const;
  [[nodiscard]] BusyTimes BusyTimesOf(const Plan& plan, const Job& job) const;

  SearchProblem problem_;
  FrameworkStyle style_;
  std::unique_ptr<LayerTimes> layer_times_ = std::make_unique<LayerTimes>();
  std::unique_ptr<MemoryFloors> memory_floors_ = std::make_unique<MemoryFloors>();
};

}  // namespace prism::launch
