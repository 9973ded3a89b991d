// Several jobs with deadlines on one cluster: who gets how many GPUs, and when.
//
// Each job runs once, from its start to its end on the same number of GPUs, which is one of those
// of its speed function; it may start later than at once. Jobs are placed in the order of their
// starts, each as early as it can be after those that were placed: every schedule in which no job
// could start earlier comes out of one such order, and one of them is best. Of all orders and all
// numbers of GPUs those are tried that a bound does not rule out, so the answer is exact.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace prism::launch {

// One point of a speed function.
struct JobSpeed {
  int64_t gpus = 0;
  double days = 0;
  double cost = 0;  // in whatever is to be small: USD, GPU-hours
};

struct DeadlineJob {
  double deadline_days = 0;
  std::vector<JobSpeed> speeds;  // at least one
};

struct JobPlacement {
  size_t speed = 0;  // index into speeds
  double start_days = 0;
  double end_days = 0;
};

enum class ScheduleObjective : uint8_t { kCost, kMakespan };

struct ClusterSchedule {
  std::vector<JobPlacement> jobs;
  double cost = 0;           // of all jobs
  double makespan_days = 0;  // end of the last one
  double late_days = 0;      // how far beyond its deadline the latest job ends; 0: all hold
  bool proven = true;        // false: `kMaxPlacements` were tried and the best so far stands
};

inline constexpr int64_t kMaxPlacements = 5'000'000;

// Where the deadlines can be held: the schedule with the least of the objective and then of the
// other one. Else the one that is least late, and then cheapest. Every job has a speed with at most
// `gpus` GPUs; others are never taken. Days are taken to the nearest 2^-30, costs to 2^-20.
ClusterSchedule BestSchedule(std::span<const DeadlineJob> jobs,
                             int64_t gpus,
                             ScheduleObjective objective);

}  // namespace prism::launch
