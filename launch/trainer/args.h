// The command line of prism-workload: written by the launcher from a JobSpec, read by the program.
// Free of libtorch, because the launcher links it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graph/base/ids.h"
#include "graph/base/status.h"
#include "graph/job/job.h"

namespace prism::launch {

enum class DeviceKind : uint8_t { kCuda, kCpu };

// One rank's view of the job: the job itself and who this process is.
struct WorkloadConfig {
  graph::JobSpec job;
  int32_t iterations = 3;
  DeviceKind device = DeviceKind::kCuda;  // kCpu: tests, with real values in float32
  Rank rank;

  [[nodiscard]] int32_t tp_rank() const;
  [[nodiscard]] int32_t cp_rank() const;
  [[nodiscard]] int32_t dp_rank() const;
  [[nodiscard]] int32_t ep_rank() const;  // inside dp
  [[nodiscard]] int32_t pp_rank() const;
  [[nodiscard]] bool sequence_parallel() const;  // asked for, and tp > 1
  [[nodiscard]] int64_t sequence() const;        // this rank's part along cp, tokens
  [[nodiscard]] int64_t head_size() const { return job.model.HeadDim(); }
};

// Arguments (without the program's name) that make prism-workload run this job.
std::vector<std::string> WorkloadArgs(const graph::JobSpec& job, int iterations);

// Reads the arguments (without the program's name). Fails with kInvalidArgument on anything unknown
// or impossible; the rank is not checked.
Result<WorkloadConfig> ParseWorkloadArgs(const std::vector<std::string>& args);

// Sets config->rank from the environment (RANK, WORLD_SIZE), as a launcher like torchrun gives it.
// Fails when they are absent or do not fit the layout.
Status ReadRankFromEnvironment(WorkloadConfig* config);

}  // namespace prism::launch
