// `prism search --jobs FILE.toml --gpus N`: several jobs with deadlines on one cluster.
//
//   [[job]]
//   name = "chat"             # the model's if left out
//   model = "gpt3-1.3b"       # a preset or a file
//   tokens = 26e9             # or tokens_per_parameter = 20
//   deadline_days = 10
//   global_batch_size = 512   # the model's if left out
//   gpus = "8,16,32"          # numbers it may get; if left out, one node, two, four, ... and all
//
// The speed function of a job is the time of its best plan on each of these numbers;
// launch/plan/job_schedule.h allocates GPUs.
#pragma once

#include <string>
#include <vector>

#include "graph/base/status.h"
#include "launch/plan/job_schedule.h"
#include "launch/plan/search.h"

namespace prism::launch {

struct ListedJob {
  std::string name;
  SearchProblem problem;
  double deadline_days = 0;
  std::vector<int64_t> gpus;  // ascending
};

// `shared`: cluster, costs and framework of all jobs. `gpus`: how many they may get.
Result<std::vector<ListedJob>> ReadJobList(const std::string& path,
                                           const SearchProblem& shared,
                                           int64_t gpus);

// How long a job takes on each number of GPUs, with the fastest plan; numbers on which no plan fits
// are left out.
struct JobSpeeds {
  ListedJob job;
  std::vector<EvaluatedPlan> plans;
};

struct JobsAnswer {
  std::vector<JobSpeeds> jobs;
  ClusterSchedule schedule;
};

// `options`: those of every search; their only number of GPUs is the size of the cluster.
// kInvalidArgument if a job fits on none of its numbers.
Result<JobsAnswer> AllotJobs(const std::vector<ListedJob>& jobs,
                             const std::string& precision,
                             const SearchOptions& options,
                             MpiSession& session);

std::string JobsText(const JobsAnswer& answer, const SearchOptions& options);
std::string JobsJson(const JobsAnswer& answer, const SearchOptions& options);

}  // namespace prism::launch
