// Finds the best plans of a space, by full replay of every plan that may be among them.
//
// A plan is left out when a lower bound of its time (PlanEvaluator::TimeFloor) shows that it is
// neither among the best by the objective nor on the Pareto front; the answer is that of an
// exhaustive search. Plans are evaluated in an order and in batches that depend only on the
// problem, distributed over the processes of mpirun and their threads, so that the counts, too, are
// the same for any number of either.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "graph/base/enum_names.h"
#include "graph/base/status.h"
#include "launch/plan/plan_evaluator.h"
#include "launch/plan/plan_space.h"
#include "launch/plan/run_cost.h"
#include "launch/process/mpi_session.h"

namespace prism::launch {

enum class Objective : uint8_t { kTime, kCost, kEnergy };
inline constexpr EnumNames<Objective, 3> kObjectiveNames = {
    {{Objective::kTime, "time"}, {Objective::kCost, "cost"}, {Objective::kEnergy, "energy"}}};

struct SearchOptions {
  PlanChoices choices;
  std::vector<Plan> given;  // evaluated in addition, however they rank
  Objective objective = Objective::kTime;
  std::optional<double> budget_usd;        // plans that cost more are ruled out
  std::optional<double> budget_gpu_hours;  // likewise
  std::optional<double> deadline_days;
  size_t top = 10;          // plans that the answer lists
  bool exhaustive = false;  // every plan that fits is evaluated and listed
  int threads = 1;
  // Told, on process 0 and from any of its threads, which share of the candidates is settled.
  std::function<void(double)> on_progress;
};

// Options of one search of several, whose progress is that part of the whole.
SearchOptions OptionsOfPart(const SearchOptions& options, size_t part, size_t parts);

struct EvaluatedPlan {
  Plan plan;
  JobTime time;
  TimeInterval interval;
  PlanMemory memory;
  bool fits = true;
  bool over_budget = false;  // for given plans; others are left out
  bool over_deadline = false;
  RunCost cost;
  double mfu = 0;
  double hfu = 0;
};

// How much memory the plans that do not fit lack, bytes.
struct MemoryShortage {
  int64_t plans = 0;
  int64_t least = 0;
  int64_t most = 0;
};

// Plans that one of the user's bounds rules out, and the smallest value of any of them.
struct Bound {
  int64_t plans = 0;
  std::optional<double> least;

  void Count(double value) {
    ++plans;
    least = std::min(value, least.value_or(value));
  }
};

// A plan counts under the first bound that it exceeds.
struct RuledOut {
  Bound usd;
  Bound gpu_hours;
  Bound days;
};

struct SearchResult {
  int64_t candidates = 0;
  std::map<std::string, int64_t> rejected;      // layouts that no framework could start, by reason
  std::map<std::string, int64_t> not_modelled;  // by reason
  MemoryShortage shortage;                      // of the device
  MemoryShortage host_shortage;                 // of plans that fit on it
  RuledOut ruled_out;
  int64_t bounded = 0;               // left out by their lower bound
  int64_t evaluated = 0;             // by full replay
  std::vector<EvaluatedPlan> best;   // by objective; with `exhaustive` all
  std::vector<EvaluatedPlan> front;  // Pareto: no plan is faster and as cheap; sorted by time
  std::vector<EvaluatedPlan> given;  // in the order given
};

// The measure that the objective minimises: days of training, USD (GPU-hours if the cluster has no
// price), kWh (GPU-hours if it has no power).
double MeasureOf(Objective objective, const RunCost& cost);

// kInvalidArgument for a given plan that cannot be evaluated.
Result<SearchResult> Search(const PlanEvaluator& evaluator,
                            const SearchOptions& options,
                            MpiSession& session);

}  // namespace prism::launch
