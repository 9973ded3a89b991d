// Several jobs with deadlines on one cluster, against all orders and all numbers of GPUs.
#include "launch/plan/job_schedule.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <vector>

#include <gtest/gtest.h>

#include "graph/base/rng.h"

namespace prism::launch {
namespace {

// GPU use at a given time, by the jobs placed so far.
int64_t UseAt(const std::vector<DeadlineJob>& jobs,
              const std::vector<std::optional<JobPlacement>>& placed,
              double time) {
  int64_t use = 0;
  for (size_t j = 0; j < jobs.size(); ++j) {
    if (placed[j] && placed[j]->start_days <= time && time < placed[j]->end_days) {
      use += jobs[j].speeds[placed[j]->speed].gpus;
    }
  }
  return use;
}

// The first moment at which something starts or ends and from which the job fits until its end.
double FirstStart(const std::vector<DeadlineJob>& jobs,
                  const std::vector<std::optional<JobPlacement>>& placed,
                  const JobSpeed& speed,
                  int64_t gpus) {
  std::vector<double> moments = {0};
  for (const auto& at : placed) {
    if (at) {
      moments.insert(moments.end(), {at->start_days, at->end_days});
    }
  }
  std::sort(moments.begin(), moments.end());
  const auto fits = [&](double start) {
    return std::all_of(moments.begin(), moments.end(), [&](double moment) {
      const bool during = moment >= start && moment < start + speed.days;
      return !during || UseAt(jobs, placed, moment) + speed.gpus <= gpus;
    });
  };
  return *std::find_if(moments.begin(), moments.end(), fits);
}

struct Exhaustive {
  ClusterSchedule cheapest;
  ClusterSchedule shortest;
  ClusterSchedule least_late;
  bool any = false;
  bool any_holds = false;

  void Take(const ClusterSchedule& schedule) {
    const auto better = [](double a, double b, double c, double d) {
      return a < b - 1e-9 || (a < b + 1e-9 && c < d - 1e-9);
    };
    if (!any || better(schedule.late_days, least_late.late_days, schedule.cost, least_late.cost)) {
      least_late = schedule;
    }
    any = true;
    if (schedule.late_days > 0) {
      return;
    }
    if (!any_holds ||
        better(schedule.cost, cheapest.cost, schedule.makespan_days, cheapest.makespan_days)) {
      cheapest = schedule;
    }
    if (!any_holds ||
        better(schedule.makespan_days, shortest.makespan_days, schedule.cost, shortest.cost)) {
      shortest = schedule;
    }
    any_holds = true;
  }
};

// Every order of the jobs with every choice of their numbers of GPUs, each as early as possible.
Exhaustive TryAll(const std::vector<DeadlineJob>& jobs, int64_t gpus) {
  Exhaustive all;
  std::vector<size_t> order(jobs.size());
  std::iota(order.begin(), order.end(), size_t{0});
  size_t choices = 1;
  for (const DeadlineJob& job : jobs) {
    choices *= job.speeds.size();
  }
  do {
    for (size_t choice = 0; choice < choices; ++choice) {
      std::vector<std::optional<JobPlacement>> placed(jobs.size());
      ClusterSchedule schedule;
      size_t left = choice;
      for (const size_t j : order) {
        const size_t s = left % jobs[j].speeds.size();
        left /= jobs[j].speeds.size();
        const JobSpeed& speed = jobs[j].speeds[s];
        const double start = FirstStart(jobs, placed, speed, gpus);
        placed[j] = {s, start, start + speed.days};
        schedule.cost += speed.cost;
        schedule.makespan_days = std::max(schedule.makespan_days, placed[j]->end_days);
        schedule.late_days =
            std::max(schedule.late_days, placed[j]->end_days - jobs[j].deadline_days);
      }
      all.Take(schedule);
    }
  } while (std::next_permutation(order.begin(), order.end()));
  return all;
}

// More GPUs take less time, and more GPU-days.
std::vector<DeadlineJob> DrawJobs(Rng* rng, int64_t count) {
  std::vector<DeadlineJob> jobs;
  for (int64_t j = 0; j < count; ++j) {
    DeadlineJob job;
    double days = 4.0 + static_cast<double>(rng->UniformInt(0, 15));
    job.deadline_days = days * (0.4 + 0.2 * static_cast<double>(rng->UniformInt(0, 7)));
    for (int64_t gpus = 8; gpus <= 32; gpus *= 2) {
      job.speeds.push_back({gpus, days, days * static_cast<double>(gpus)});
      days *= 0.55 + 0.05 * static_cast<double>(rng->UniformInt(0, 4));
    }
    jobs.push_back(std::move(job));
  }
  return jobs;
}

TEST(ClusterSchedule, is_that_of_an_exhaustive_search) {
  Rng rng(11, "jobs");
  int64_t held = 0;
  constexpr int kCases = 60;
  for (int i = 0; i < kCases; ++i) {
    const std::vector<DeadlineJob> jobs = DrawJobs(&rng, 1 + i % 4);
    const Exhaustive all = TryAll(jobs, 32);
    const ClusterSchedule cheapest = BestSchedule(jobs, 32, ScheduleObjective::kCost);
    const ClusterSchedule shortest = BestSchedule(jobs, 32, ScheduleObjective::kMakespan);
    EXPECT_TRUE(cheapest.proven);
    const ClusterSchedule& expected = all.any_holds ? all.cheapest : all.least_late;
    EXPECT_NEAR(cheapest.cost, expected.cost, 1e-6) << i;
    EXPECT_NEAR(cheapest.late_days, expected.late_days, 1e-6) << i;
    if (all.any_holds) {
      ++held;
      EXPECT_NEAR(cheapest.makespan_days, all.cheapest.makespan_days, 1e-6) << i;
      EXPECT_NEAR(shortest.makespan_days, all.shortest.makespan_days, 1e-6) << i;
      EXPECT_NEAR(shortest.cost, all.shortest.cost, 1e-6) << i;
    }
  }
  EXPECT_GT(held, kCases / 4);
  EXPECT_LT(held, kCases);
}

TEST(ClusterSchedule, a_job_waits_for_gpus_rather_than_miss_its_deadline) {
  // Side by side on 8 GPUs each, both would end on day 10; one after the other on all 16 is better.
  const std::vector<DeadlineJob> jobs = {{6, {{8, 10, 80}, {16, 6, 96}}},
                                         {12, {{8, 10, 80}, {16, 6, 96}}}};
  const ClusterSchedule schedule = BestSchedule(jobs, 16, ScheduleObjective::kCost);
  EXPECT_EQ(schedule.late_days, 0);
  EXPECT_EQ(schedule.jobs[0].end_days, 6);
  EXPECT_EQ(schedule.jobs[1].start_days, 6);
  EXPECT_EQ(schedule.cost, 192);
}

TEST(ClusterSchedule, says_by_how_much_deadlines_are_missed) {
  const std::vector<DeadlineJob> jobs = {{5, {{16, 6, 96}}}, {7, {{16, 6, 96}}}};
  EXPECT_EQ(BestSchedule(jobs, 16, ScheduleObjective::kCost).late_days, 5);
}

// Rounding of equal sums in different orders does not decide.
TEST(ClusterSchedule, of_equal_costs_takes_the_shorter) {
  std::vector<DeadlineJob> jobs;
  for (const double hours : {35.9, 42.2, 9.9, 49.9}) {
    DeadlineJob job{300, {}};
    for (const int64_t gpus : {1, 2, 4, 8}) {
      job.speeds.push_back({gpus, hours / static_cast<double>(gpus) * (1 + 0.01 / 3), hours * 4.1});
    }
    jobs.push_back(job);
  }
  const ClusterSchedule cheapest = BestSchedule(jobs, 16, ScheduleObjective::kCost);
  const ClusterSchedule shortest = BestSchedule(jobs, 16, ScheduleObjective::kMakespan);
  EXPECT_EQ(cheapest.cost, shortest.cost);
  EXPECT_EQ(cheapest.makespan_days, shortest.makespan_days);
}

}  // namespace
}  // namespace prism::launch
