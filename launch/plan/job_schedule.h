// Several jobs with deadlines on one cluster: who gets how many GPUs, and when.
//
// Each job runs once, from its start to its end on the same number of GPUs, which is one of those
// of its speed function; it may start later than at once. Jobs are placed in the order of their
// starts, each as early as possible given those already placed: every schedule in which no job
// could start earlier results from such an order, and one of them is best. All orders and all
// numbers of GPUs that a bound does not rule out are tried, so the answer is exact.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace prism::launch {

// One point of a speed function.
struct JobSpeed {
  int64_t gpus = 0;
  double days = 0;
  double cost = 0;  // in the unit to minimise: USD, GPU-hours
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
  double late_days = 0;      // how late the latest job ends; 0: all deadlines are met
  bool proven = true;        // false: best of the first `kMaxPlacements` tried
};

inline constexpr int64_t kMaxPlacements = 5'000'000;

// If the deadlines can be met: the schedule with the smallest objective, then the smallest value of
// the other one. Else the one that is least late, and then cheapest. Every job must have a speed
// with at most `gpus` GPUs; others are never used. Days are taken to the nearest 2^-30, costs to
// 2^-20.
ClusterSchedule BestSchedule(std::span<const DeadlineJob> jobs,
                             int64_t gpus,
                             ScheduleObjective objective);

}  // namespace prism::launch
