// Which plans are left out by a bound must depend on the problem alone, or reports would differ
// with the number of processes. So bounds are compared with the answer only while a batch is
// formed, from the results of all earlier batches, and the size of a batch depends on nothing but
// its number: small at first, since the most promising plans settle most of the others, then
// doubled to keep many processes busy.
#include "launch/plan/search.h"

#include <atomic>
#include <limits>
#include <numeric>
#include <utility>

#include "graph/base/divide.h"
#include "graph/base/parallel.h"
#include "launch/plan/answer.h"
#include "launch/process/distribute.h"
#include "launch/process/wire.h"

namespace prism::launch {
namespace {

enum class Verdict : uint8_t { kEvaluated, kTooLarge, kFailed };

// What one evaluation found, as it travels between processes.
struct Found {
  Verdict verdict = Verdict::kFailed;
  JobTime time;
  PlanMemory memory;
  std::string failure;
};

std::string Pack(const Found& found) {
  WireWriter writer;
  writer.Put(found.verdict).Put(found.time).Put(found.memory).PutText(found.failure);
  return writer.Take();
}

Found Unpack(const std::string& bytes) {
  WireReader reader(bytes);
  Found found;
  found.verdict = reader.Get<Verdict>();
  found.time = reader.Get<JobTime>();
  found.memory = reader.Get<PlanMemory>();
  found.failure = reader.GetText();
  return found;
}

// What else one evaluation is to find: a time even if the plan does not fit, the time's interval.
struct Wanted {
  bool unfit_time = false;
  bool interval = false;
};

Found Evaluate(const PlanEvaluator& evaluator, const Plan& plan, const Wanted& wanted) {
  Found found;
  const Result<PlanMemory> memory = evaluator.Memory(plan);
  if (!memory.ok()) {
    found.failure = memory.status().message();
    return found;
  }
  found.memory = *memory;
  const bool fits = evaluator.Fits(*memory);
  found.verdict = fits ? Verdict::kEvaluated : Verdict::kTooLarge;
  if (!fits && !wanted.unfit_time) {
    return found;
  }
  const Result<JobTime> time =
      wanted.interval ? evaluator.TimeWithStalls(plan) : evaluator.Time(plan);
  if (!time.ok()) {
    found.verdict = Verdict::kFailed;
    found.failure = time.status().message();
    return found;
  }
  found.time = *time;
  return found;
}

class SearchRun {
 public:
  SearchRun(const PlanEvaluator& evaluator, const SearchOptions& options, MpiSession& session)
      : evaluator_(evaluator),
        options_(options),
        session_(session),
        answer_(options.objective,
                options.exhaustive ? std::numeric_limits<size_t>::max() : options.top) {}

  Result<SearchResult> Run() {
    PlanSpace space = EnumeratePlans(evaluator_.problem(), options_.choices);
    result_.candidates = space.candidates;
    result_.rejected = std::move(space.rejected);
    plans_ = std::move(space.plans);
    PRISM_RETURN_IF_ERROR(EvaluateGiven());
    FindFloors();
    PRISM_RETURN_IF_ERROR(EvaluateBatches());
    result_.best = answer_.best();
    result_.front = answer_.front();
    if (!options_.exhaustive) {
      PRISM_RETURN_IF_ERROR(FindIntervals(&result_.best));
      PRISM_RETURN_IF_ERROR(FindIntervals(&result_.front));
    }
    return std::move(result_);
  }

 private:
  // The lower bounds of one plan's run and memory.
  struct Floor {
    RunCost cost;
    int64_t short_bytes = 0;  // lower bound of what is missing; 0: it may fit
  };

  [[nodiscard]] EvaluatedPlan Complete(const Plan& plan, const Found& found) const {
    EvaluatedPlan evaluated;
    evaluated.plan = plan;
    evaluated.time = found.time;
    evaluated.memory = found.memory;
    evaluated.fits = found.verdict == Verdict::kEvaluated;
    evaluated.interval = evaluator_.IntervalOf(found.time);
    evaluated.cost =
        CostOfRun(evaluator_.problem(), plan.gpus(), found.time.seconds, found.memory.host_bytes);
    evaluated.mfu = evaluator_.Utilization(plan, found.time.seconds, graph::ModelFlops);
    evaluated.hfu = evaluator_.Utilization(plan, found.time.seconds, graph::HardwareFlops);
    return evaluated;
  }

  Status EvaluateGiven() {
    for (const Plan& plan : options_.given) {
      if (const std::string why = WhyNoPlan(evaluator_.problem(), plan); !why.empty()) {
        return InvalidArgument(why).WithContext(DescribePlan(plan));
      }
      const Found found = Evaluate(evaluator_, plan, {.unfit_time = true, .interval = true});
      if (found.verdict == Verdict::kFailed) {
        return InvalidArgument(found.failure).WithContext(DescribePlan(plan));
      }
      EvaluatedPlan given = Complete(plan, found);
      given.over_budget = IsOverUsd(given.cost) || IsOverGpuHours(given.cost);
      given.over_deadline = IsOverDeadline(given.cost);
      result_.given.push_back(std::move(given));
    }
    return OkStatus();
  }

  void FindFloors() {
    constexpr int64_t kBlock = 64;
    floors_.resize(plans_.size());
    ParallelFor(
        options_.threads, static_cast<int64_t>(plans_.size()),
        [&](int64_t i) {
          const Plan& plan = plans_[static_cast<size_t>(i)];
          Floor& floor = floors_[static_cast<size_t>(i)];
          floor.short_bytes =
              std::max<int64_t>(0, evaluator_.MemoryFloor(plan) - evaluator_.capacity_bytes());
          if (floor.short_bytes == 0) {  // else its time is not needed
            floor.cost = CostOfRun(evaluator_.problem(), plan.gpus(), evaluator_.TimeFloor(plan));
          }
        },
        kBlock);
    order_.resize(plans_.size());
    std::iota(order_.begin(), order_.end(), size_t{0});
    std::ranges::stable_sort(order_, [&](size_t a, size_t b) {
      return MeasureOf(options_.objective, floors_[a].cost) <
             MeasureOf(options_.objective, floors_[b].cost);
    });
  }

  static void NoteShortage(int64_t bytes, MemoryShortage* noted) {
    MemoryShortage& shortage = *noted;
    shortage.least = shortage.plans == 0 ? bytes : std::min(shortage.least, bytes);
    shortage.most = std::max(shortage.most, bytes);
    ++shortage.plans;
  }

  void NoteTooLarge(const PlanMemory& memory) {
    const int64_t lacks = memory.device_bytes - evaluator_.capacity_bytes();
    if (lacks > 0) {
      NoteShortage(lacks, &result_.shortage);
    } else {
      NoteShortage(memory.host_bytes - evaluator_.host_capacity_bytes().value_or(0),
                   &result_.host_shortage);
    }
  }

  [[nodiscard]] bool IsOverUsd(const RunCost& cost) const {
    return options_.budget_usd.has_value() && cost.price_usd.value_or(0) > *options_.budget_usd;
  }
  [[nodiscard]] bool IsOverGpuHours(const RunCost& cost) const {
    return options_.budget_gpu_hours.has_value() && cost.gpu_hours > *options_.budget_gpu_hours;
  }
  [[nodiscard]] bool IsOverDeadline(const RunCost& cost) const {
    return options_.deadline_days.has_value() && cost.days > *options_.deadline_days;
  }

  // Whether the run is over budget or deadline, which is then counted.
  bool IsRuledOut(const RunCost& cost) {
    RuledOut& ruled_out = result_.ruled_out;
    if (IsOverUsd(cost)) {
      ruled_out.usd.Count(*cost.price_usd);
    } else if (IsOverGpuHours(cost)) {
      ruled_out.gpu_hours.Count(cost.gpu_hours);
    } else if (IsOverDeadline(cost)) {
      ruled_out.days.Count(cost.days);
    } else {
      return false;
    }
    return true;
  }

  // Whether a plan need not be evaluated, which is then counted.
  bool IsLeftOut(size_t index) {
    const Floor& floor = floors_[index];
    if (floor.short_bytes > 0) {
      NoteShortage(floor.short_bytes, &result_.shortage);
      return true;
    }
    if (IsRuledOut(floor.cost)) {
      return true;
    }
    if (!options_.exhaustive && answer_.IsSettled(floor.cost)) {
      ++result_.bounded;
      return true;
    }
    return false;
  }

  Status EvaluateBatches() {
    constexpr size_t kFirstBatch = 16;
    constexpr size_t kLargestBatch = 1024;
    size_t most = kFirstBatch;
    size_t next = 0;
    while (next < order_.size()) {
      const double begin = ShareOf(next);
      std::vector<size_t> batch;
      for (; next < order_.size() && batch.size() < most; ++next) {
        if (!IsLeftOut(order_[next])) {
          batch.push_back(order_[next]);
        }
      }
      PRISM_RETURN_IF_ERROR(EvaluateBatch(batch, begin, ShareOf(next)));
      most = std::min(2 * most, kLargestBatch);
    }
    return OkStatus();
  }

  [[nodiscard]] double ShareOf(size_t candidates) const {
    return static_cast<double>(candidates) / static_cast<double>(order_.size());
  }

  // `begin`, `end`: which share of the candidates is settled before and after it.
  Status EvaluateBatch(const std::vector<size_t>& batch, double begin, double end) {
    std::atomic<size_t> done = 0;
    const auto mine = DivideUp(batch.size(), static_cast<size_t>(session_.size()));
    PRISM_ASSIGN_OR_RETURN(
        const std::vector<std::string> results,
        DistributeItems(session_, static_cast<int64_t>(batch.size()), options_.threads,
                        [&](int64_t i) -> Result<std::string> {
                          const Plan& plan = plans_[batch[static_cast<size_t>(i)]];
                          std::string found =
                              Pack(Evaluate(evaluator_, plan, {.interval = options_.exhaustive}));
                          if (options_.on_progress && session_.rank() == 0) {
                            const double share =
                                static_cast<double>(++done) / static_cast<double>(mine);
                            options_.on_progress(begin + share * (end - begin));
                          }
                          return found;
                        }));
    for (size_t i = 0; i < batch.size(); ++i) {
      Take(plans_[batch[i]], Unpack(results[i]));
    }
    return OkStatus();
  }

  // Only for the answer, since intervals take a second evaluation.
  Status FindIntervals(std::vector<EvaluatedPlan>* plans) {
    PRISM_ASSIGN_OR_RETURN(
        const std::vector<std::string> results,
        DistributeItems(session_, static_cast<int64_t>(plans->size()), options_.threads,
                        [&](int64_t i) -> Result<std::string> {
                          const Plan& plan = (*plans)[static_cast<size_t>(i)].plan;
                          PRISM_ASSIGN_OR_RETURN(const JobTime time,
                                                 evaluator_.TimeWithStalls(plan));
                          return WireWriter().Put(time).Take();
                        }));
    for (size_t i = 0; i < plans->size(); ++i) {
      EvaluatedPlan& plan = (*plans)[i];
      plan.time = WireReader(results[i]).Get<JobTime>();
      plan.interval = evaluator_.IntervalOf(plan.time);
    }
    return OkStatus();
  }

  void Take(const Plan& plan, const Found& found) {
    switch (found.verdict) {
      case Verdict::kFailed:
        ++result_.not_modelled[found.failure];
        return;
      case Verdict::kTooLarge:
        NoteTooLarge(found.memory);
        return;
      case Verdict::kEvaluated:
        break;
    }
    ++result_.evaluated;
    const EvaluatedPlan evaluated = Complete(plan, found);
    if (!IsRuledOut(evaluated.cost)) {
      answer_.Add(evaluated);
    }
  }

  const PlanEvaluator& evaluator_;
  const SearchOptions& options_;
  MpiSession& session_;
  SearchResult result_;
  std::vector<Plan> plans_;
  std::vector<Floor> floors_;  // by plan
  std::vector<size_t> order_;  // order of evaluation: the most promising first
  SearchAnswer answer_;
};

}  // namespace

SearchOptions OptionsOfPart(const SearchOptions& options, size_t part, size_t parts) {
  SearchOptions own = options;
  if (options.on_progress) {
    own.on_progress = [whole = options.on_progress, part, parts](double share) {
      whole((static_cast<double>(part) + share) / static_cast<double>(parts));
    };
  }
  return own;
}

Result<SearchResult> Search(const PlanEvaluator& evaluator,
                            const SearchOptions& options,
                            MpiSession& session) {
  return SearchRun(evaluator, options, session).Run();
}

}  // namespace prism::launch
