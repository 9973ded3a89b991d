// Branch and bound over orders of starts. A branch places one more job where it fits first, and is
// dropped if that is before the previous start; jobs that start together are placed in the order of
// their numbers, so every schedule is reached once. Its bound takes the cheapest speed and the
// least GPU time of each job not yet placed. Sums are exact, so a branch whose bound only equals
// the best schedule can be dropped as well.
#include "launch/plan/job_schedule.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

namespace prism::launch {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

// Sums of multiples of these units are exact in any order, so that schedules with equal times or
// costs compare equal: up to eight million days and eight billion units of the objective.
constexpr double kDayUnit = 0x1p-30;
constexpr double kCostUnit = 0x1p-20;

double NearestMultiple(double value, double unit) {
  return std::round(value / unit) * unit;
}

// What is minimised, the first before the second.
using Measure = std::pair<double, double>;

class Scheduler {
 public:
  Scheduler(std::span<const DeadlineJob> jobs,
            int64_t gpus,
            ScheduleObjective objective,
            bool hold_deadlines)
      : jobs_(jobs.begin(), jobs.end()),
        gpus_(gpus),
        objective_(objective),
        hold_(hold_deadlines),
        placed_(jobs.size(), false),
        now_{.jobs = std::vector<JobPlacement>(jobs.size())} {
    for (DeadlineJob& job : jobs_) {
      job.deadline_days = NearestMultiple(job.deadline_days, kDayUnit);
      double cost = kNever;
      double area = kNever;
      for (JobSpeed& speed : job.speeds) {
        speed.days = NearestMultiple(speed.days, kDayUnit);
        speed.cost = NearestMultiple(speed.cost, kCostUnit);
        if (speed.gpus <= gpus && !(hold_ && speed.days > job.deadline_days)) {
          cost = std::min(cost, speed.cost);
          area = std::min(area, static_cast<double>(speed.gpus) * speed.days);
        }
      }
      least_cost_.push_back(cost);
      least_area_.push_back(area);
      cost_left_ += cost;
      area_ += area;
    }
  }

  // Null if deadlines are required and no schedule meets all of them.
  std::optional<ClusterSchedule> Run() {
    if (cost_left_ < kNever) {
      PlaceNext(0, 0, 0);
    }
    return best_;
  }

  // True if all orders were tried or ruled out.
  [[nodiscard]] bool complete() const { return tried_ < kMaxPlacements; }

 private:
  [[nodiscard]] int64_t UsedAt(double time) const {
    int64_t used = 0;
    for (size_t j = 0; j < jobs_.size(); ++j) {
      const JobPlacement& at = now_.jobs[j];
      if (placed_[j] && at.start_days <= time && time < at.end_days) {
        used += jobs_[j].speeds[at.speed].gpus;
      }
    }
    return used;
  }

  // GPU use changes where jobs start and end; it only grows at starts.
  [[nodiscard]] bool FitsAt(double start, const JobSpeed& speed) const {
    if (UsedAt(start) + speed.gpus > gpus_) {
      return false;
    }
    for (size_t j = 0; j < jobs_.size(); ++j) {
      const double other = now_.jobs[j].start_days;
      if (placed_[j] && other > start && other < start + speed.days &&
          UsedAt(other) + speed.gpus > gpus_) {
        return false;
      }
    }
    return true;
  }

  [[nodiscard]] double EarliestStart(const JobSpeed& speed) const {
    double earliest = FitsAt(0, speed) ? 0 : kNever;
    for (size_t j = 0; j < jobs_.size(); ++j) {
      const double end = now_.jobs[j].end_days;
      if (placed_[j] && end < earliest && FitsAt(end, speed)) {
        earliest = end;
      }
    }
    return earliest;
  }

  // A lower bound of all schedules that continue from here.
  [[nodiscard]] Measure Bound() const {
    const double cost = now_.cost + cost_left_;
    const double makespan = std::max(now_.makespan_days, area_ / static_cast<double>(gpus_));
    if (!hold_) {
      return {now_.late_days, cost};
    }
    return objective_ == ScheduleObjective::kCost ? Measure{cost, now_.makespan_days}
                                                  : Measure{makespan, cost};
  }

  [[nodiscard]] Measure MeasureOf(const ClusterSchedule& schedule) const {
    if (!hold_) {
      return {schedule.late_days, schedule.cost};
    }
    return objective_ == ScheduleObjective::kCost ? Measure{schedule.cost, schedule.makespan_days}
                                                  : Measure{schedule.makespan_days, schedule.cost};
  }

  void PlaceNext(size_t count, double last_start, size_t last_job) {
    if (count == jobs_.size()) {
      best_ = now_;
      return;
    }
    for (size_t job = 0; job < jobs_.size(); ++job) {
      for (size_t s = 0; !placed_[job] && s < jobs_[job].speeds.size(); ++s) {
        const JobSpeed& speed = jobs_[job].speeds[s];
        if (speed.gpus > gpus_ || tried_ == kMaxPlacements) {
          continue;
        }
        ++tried_;
        const double start = EarliestStart(speed);
        const bool in_order =
            start > last_start || (start == last_start && (count == 0 || job > last_job));
        if (in_order) {
          TryAt(job, s, start, count);
        }
      }
    }
  }

  void TryAt(size_t job, size_t s, double start, size_t count) {
    const JobSpeed& speed = jobs_[job].speeds[s];
    const double end = start + speed.days;
    if (hold_ && end > jobs_[job].deadline_days) {
      return;
    }
    const ClusterSchedule before = now_;
    const double cost_left = cost_left_;
    const double area = area_;
    placed_[job] = true;
    now_.jobs[job] = {s, start, end};
    now_.cost += speed.cost;
    now_.makespan_days = std::max(now_.makespan_days, end);
    now_.late_days = std::max(now_.late_days, end - jobs_[job].deadline_days);
    cost_left_ -= least_cost_[job];
    area_ += static_cast<double>(speed.gpus) * speed.days - least_area_[job];
    if (!best_ || Bound() < MeasureOf(*best_)) {
      PlaceNext(count + 1, start, job);
    }
    placed_[job] = false;
    now_ = before;
    cost_left_ = cost_left;
    area_ = area;
  }

  std::vector<DeadlineJob> jobs_;
  int64_t gpus_;
  ScheduleObjective objective_;
  bool hold_;
  std::vector<double> least_cost_;  // by job
  std::vector<double> least_area_;  // GPUs times days
  double cost_left_ = 0;            // lower bound for the jobs that are not placed
  double area_ = 0;                 // of the placed jobs, plus a lower bound for the others
  std::vector<bool> placed_;
  ClusterSchedule now_;
  std::optional<ClusterSchedule> best_;
  int64_t tried_ = 0;
};

}  // namespace

ClusterSchedule BestSchedule(std::span<const DeadlineJob> jobs,
                             int64_t gpus,
                             ScheduleObjective objective) {
  Scheduler holding(jobs, gpus, objective, /*hold_deadlines=*/true);
  std::optional<ClusterSchedule> schedule = holding.Run();
  bool proven = holding.complete();
  if (!schedule) {
    Scheduler late(jobs, gpus, objective, /*hold_deadlines=*/false);
    schedule = late.Run();
    proven = proven && late.complete();
  }
  schedule->proven = proven;
  return *std::move(schedule);
}

}  // namespace prism::launch
