#include "launch/accuracy/row_memory.h"

#include <algorithm>
#include <cstdint>

#include "replayer/memory/stage_memory.h"

namespace prism::launch {
namespace {

// A context of CUDA 13 with PyTorch 2.10, its kernels loaded lazily (MEMORY.md section 2 of the
// design).
constexpr int64_t kContextBytes = int64_t{426} << 20;

constexpr int64_t kWorkspaceBeforeHopper = 8'519'680;  // of cuBLAS, likewise

enum class Counter : uint8_t { kAllocated, kReserved, kDevice };

Counter CounterOf(const PublishedRow& row) {
  if (row.Says("mem_kind", "nvidia-smi")) {
    return Counter::kDevice;
  }
  return row.Says("mem_kind", "reserved") ? Counter::kReserved : Counter::kAllocated;
}

bool IsOlderThanHopper(const PublishedRow& row) {
  return row.Says("gpu", "a100") || row.Says("gpu", "v100");
}

int64_t BytesOf(const replayer::StageMemory& memory, Counter counter) {
  switch (counter) {
    case Counter::kAllocated:
      return memory.peak_allocated;
    case Counter::kReserved:
      return memory.peak_reserved;
    case Counter::kDevice:
      return memory.peak_reserved + kContextBytes;
  }
  return 0;
}

}  // namespace

Result<double> PredictedBytes(const PublishedRow& row,
                              const graph::JobSpec& job,
                              const graph::TrainingStyle& style,
                              const graph::ParameterTable& parameters,
                              Assumptions* assumptions) {
  replayer::StageMemoryOptions options;
  options.pending = replayer::PendingModelOf(parameters);
  if (IsOlderThanHopper(row)) {
    options.workspace_bytes = kWorkspaceBeforeHopper;
  }
  const Counter counter = CounterOf(row);
  const int32_t last = job.parallel.pp - 1;
  const bool only_last = row.Says("mem_rank", "last");
  const bool only_first = row.Says("mem_rank", "rank 0");
  int64_t most = 0;
  for (int32_t stage = only_last ? last : 0; stage <= (only_first ? 0 : last); ++stage) {
    PRISM_ASSIGN_OR_RETURN(const replayer::StageMemory memory,
                           replayer::PredictStageMemory(job, style, stage, options));
    most = std::max(most, BytesOf(memory, counter));
  }
  if (counter == Counter::kDevice) {
    assumptions->Add("memory: a context of 426 MiB, NCCL's buffers not counted");
  }
  return static_cast<double>(most);
}

}  // namespace prism::launch
