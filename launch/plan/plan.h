// A plan: everything that is chosen for training a model on a cluster. What is given (model,
// cluster, batch, framework) is the SearchProblem.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graph/base/status.h"
#include "graph/job/cluster.h"
#include "graph/job/job.h"
#include "graph/job/offload.h"
#include "launch/inputs/stated_numbers.h"

namespace prism::launch {

struct Plan {
  graph::ParallelSizes parallel;
  int64_t micro_batch_size = 1;
  graph::Recompute recompute = graph::Recompute::kNone;
  int32_t zero_stage = 1;
  bool sequence_parallel = false;
  graph::Offload offload = graph::Offload::kNone;  // to host memory

  [[nodiscard]] int64_t gpus() const { return parallel.world_size(); }

  bool operator==(const Plan&) const = default;
};

// An arbitrary total order, to break ties between plans.
bool operator<(const Plan& a, const Plan& b);

// "tp 8, cp 1, pp 35, dp 8, vpp 1, micro-batch 1, recompute full, ZeRO 0, sequence parallel off".
std::string DescribePlan(const Plan& plan);

// Whether it needs more GPUs than a job may have (graph::kMaxRanks); gpus() may then overflow.
bool IsTooLarge(const graph::ParallelSizes& sizes);

// "tp=8,pp=35,dp=8,recompute=full": what is left out is 1, none or off. Keys: tp, cp, pp, dp, ep,
// vpp, mb, recompute (none, selective, full), zero (0 to 3), sp (on, off), offload (none,
// optimizer, activations, all).
Result<Plan> ParsePlan(const std::string& text);

struct SearchProblem {
  graph::ModelSpec model;
  graph::ClusterSpec cluster;
  StatedNumbers costs;
  StatedNumbers host;
  std::string framework;  // one of FrameworkNames(): "megatron-core"
  int64_t global_batch_size = 1;
  int64_t seq_len = 0;
  double tokens = 0;                           // to train on
  std::vector<std::string> model_assumptions;  // ModelPreset::assumptions
  std::vector<std::string> notes = {};         // listed with the assumptions
};

// With the cluster of that name or file, what it costs and the memory of its hosts.
Result<SearchProblem> ProblemOn(const std::string& cluster, const std::string& framework);

// The model of that name or file, with its usual batch and length.
Status TakeModel(const std::string& model, SearchProblem* problem);

// ZeRO has nothing to shard without replicas: there the plan is the one with stage 0.
Plan WithoutIdleZero(Plan plan);

graph::JobSpec JobOf(const SearchProblem& problem, const Plan& plan);

// Number of iterations that the tokens take.
double IterationsOf(const SearchProblem& problem);

}  // namespace prism::launch
