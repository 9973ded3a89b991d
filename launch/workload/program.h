// The whole of prism-workload behind its main: command line, groups, training loop, exit code.
// Knows nothing of Prism; it is the program under test, and would train on real GPUs with a real
// store.
//
// One line an iteration on stdout, like Megatron's log.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "launch/workload/parallel_groups.h"
#include "launch/workload/schedule.h"

namespace prism::launch {

// Where a training stands, for hooks.
struct TrainingMoment {
  const WorkloadConfig& config;
  const ParallelGroups& groups;
  int32_t iteration = 0;  // from 0
  Pass pass;              // the forward that comes next
};

// What a program adds to the training; may be empty.
struct TrainingHooks {
  std::function<void(const TrainingMoment&)> before_forward;
};

// Exit codes: 0 ok, 1 the run failed (out of memory, a loss or norm that is no number), 2 command
// line. `args` without the program's name. Catches libtorch's exceptions.
int RunWorkload(const std::vector<std::string>& args, const TrainingHooks& hooks);

}  // namespace prism::launch
