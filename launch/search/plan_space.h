// The plans that a search is over: all combinations of what may be chosen, less those that no
// framework could start, which are counted by what is wrong with them.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "launch/search/plan.h"

namespace prism::launch {

// What may be chosen. Empty lists: everything that makes sense (see EnumeratePlans).
struct PlanChoices {
  std::vector<int64_t> gpus;  // numbers of GPUs; empty: any up to max_gpus, in whole nodes
  int64_t max_gpus = 4096;
  std::vector<int32_t> tp;
  std::vector<int32_t> cp;
  std::vector<int32_t> pp;
  std::vector<int32_t> dp;
  std::vector<int32_t> ep;
  std::vector<int32_t> vpp;
  std::vector<int64_t> micro_batch_sizes;
  std::vector<graph::Recompute> recompute;
  std::vector<int32_t> zero;
  std::vector<bool> sequence_parallel;
  std::vector<graph::Offload> offload;  // empty: none, as host memory is a choice of its own
};

struct PlanSpace {
  int64_t candidates = 0;                   // combinations in all
  std::map<std::string, int64_t> rejected;  // by reason
  std::vector<Plan> plans;                  // the rest, ordered
};

// Candidates: for each number of GPUs all (tp, cp, pp, dp) whose product it is; where the number is
// open, tp of the divisors of the heads, pp of numbers that the layers divide among, cp powers of
// two that leave a rank 4,096 tokens, dp of the divisors of the batch. With each of them vpp of the
// divisors of the layers, micro-batches of the divisors of the batch, every recomputation, ZeRO 0
// to 3, sequence parallelism on and off, offload where it is asked for, ep of the divisors of the
// experts. A combination counts under the first reason that holds, in the order of the checks in
// plan_space.cc.
PlanSpace EnumeratePlans(const SearchProblem& problem, const PlanChoices& choices);

// The reason for which that enumeration leaves a plan out; "" if it does not.
std::string WhyNoPlan(const SearchProblem& problem, const Plan& plan);

}  // namespace prism::launch
