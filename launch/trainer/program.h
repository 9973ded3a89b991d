// All of prism-workload except its main: command line, groups, training loop, exit code. Knows
// nothing of Prism; it is the program under test, and would train on real GPUs with a real store.
//
// Prints one line per iteration on stdout, like Megatron's log.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace prism::launch {

struct ParallelGroups;
struct Pass;
struct WorkloadConfig;

// The progress of a training, for hooks.
struct TrainingMoment {
  const WorkloadConfig& config;
  const ParallelGroups& groups;
  int32_t iteration = 0;  // from 0
  const Pass& pass;       // the next forward pass
};

// What a program adds to the training; may be empty.
struct TrainingHooks {
  std::function<void(const TrainingMoment&)> before_forward;
  std::function<int32_t(int32_t)> rounds_to_skip;  // schedule.h
};

// Exit codes: 0 ok, 1 the run failed (out of memory, a loss or norm that is not finite), 2 bad
// command line. `args` without the program's name. Catches libtorch's exceptions.
int RunWorkload(const std::vector<std::string>& args, const TrainingHooks& hooks);

}  // namespace prism::launch
