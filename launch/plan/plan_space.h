// The plans that a search considers: all combinations of what may be chosen, minus those that no
// framework could start, which are counted by what is wrong with them.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "launch/plan/plan.h"

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
  std::vector<graph::Offload> offload;  // empty: none, since using host memory is a separate
                                        // decision
};

struct PlanSpace {
  int64_t candidates = 0;                   // combinations in all
  std::map<std::string, int64_t> rejected;  // by reason
  std::vector<Plan> plans;                  // the rest, ordered
};

// Candidates: for each number of GPUs all (tp, cp, pp, dp) whose product it is; if the number is
// open, tp from the divisors of the heads, pp from the numbers among which the layers divide, cp
// from the powers of two that leave a rank 4,096 tokens, dp from the divisors of the batch. With
// each of them vpp from the divisors of the layers, micro-batches from the divisors of the batch,
// every recomputation, ZeRO 0 to 3, sequence parallelism on and off, offload if it is asked for, ep
// from the divisors of the experts. A rejected combination is counted under the first reason that
// applies, in the order of the checks in plan_space.cc.
PlanSpace EnumeratePlans(const SearchProblem& problem, const PlanChoices& choices);

// The reason why that enumeration leaves out a plan; "" if it does not.
std::string WhyNoPlan(const SearchProblem& problem, const Plan& plan);

}  // namespace prism::launch
