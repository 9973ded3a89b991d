#include "launch/trainer/program.h"

#include <chrono>
#include <cmath>
#include <cstdio>
#include <exception>

#include <ATen/Parallel.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>

#include "launch/trainer/args.h"
#include "launch/trainer/iteration_log.h"
#include "launch/trainer/markers.h"
#include "launch/trainer/nccl_groups.h"
#include "launch/trainer/trainer.h"

namespace prism::launch {
namespace {

void PrintIteration(const WorkloadConfig& config,
                    int32_t iteration,
                    double milliseconds,
                    const IterationResult& result) {
  const auto stats = c10::cuda::CUDACachingAllocator::getDeviceStats(0);
  const std::string line = IterationLine({.iteration = iteration + 1,
                                          .iterations = config.iterations,
                                          .milliseconds = milliseconds,
                                          .loss = result.loss,
                                          .grad_norm = result.grad_norm,
                                          .max_allocated_bytes = stats.allocated_bytes[0].peak});
  std::puts(line.c_str());
  std::fflush(stdout);
}

// False if the training has produced a value that is not finite.
bool Train(const WorkloadConfig& config, Trainer* trainer) {
  c10::cuda::device_synchronize();
  auto start = std::chrono::steady_clock::now();
  for (int32_t iteration = 0; iteration < config.iterations; ++iteration) {
    const Marker marker("iteration");
    const IterationResult result = trainer->RunIteration(iteration);
    c10::cuda::device_synchronize();
    const auto end = std::chrono::steady_clock::now();
    const std::chrono::duration<double, std::milli> elapsed = end - start;
    start = end;
    PrintIteration(config, iteration, elapsed.count(), result);
    if (!std::isfinite(result.grad_norm) || !std::isfinite(result.loss.value_or(0.0))) {
      std::fprintf(stderr, "prism-workload: loss or gradient norm is not a number\n");
      return false;
    }
  }
  return true;
}

int Run(const std::vector<std::string>& args, const TrainingHooks& hooks) {
  Result<WorkloadConfig> config = ParseWorkloadArgs(args);
  Status status = config.ok() ? ReadRankFromEnvironment(&*config) : config.status();
  if (status.ok() && config->device != DeviceKind::kCuda) {
    status = InvalidArgument("--device cpu is for tests, which bring their own process groups");
  }
  if (!status.ok()) {
    std::fprintf(stderr, "prism-workload: %s\n", status.message().c_str());
    return 2;
  }
  at::set_num_threads(1);
  c10::cuda::set_device(0);
  const ParallelGroups groups = MakeParallelGroups(*config, NcclBackends());
  Trainer trainer(*config, groups);
  if (hooks.before_forward) {
    trainer.SetBeforeForward([&](int32_t iteration, Pass pass) {
      hooks.before_forward({*config, groups, iteration, pass});
    });
  }
  trainer.SetRoundsToSkip(hooks.rounds_to_skip);
  const bool trained = Train(*config, &trainer);
  ShutDown(groups);
  return trained ? 0 : 1;
}

}  // namespace

int RunWorkload(const std::vector<std::string>& args, const TrainingHooks& hooks) {
  try {
    return Run(args, hooks);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "prism-workload: %s\n", error.what());
    return 1;
  }
}

}  // namespace prism::launch
