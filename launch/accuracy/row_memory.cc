#include "launch/accuracy/row_memory.h"

#include <algorithm>
#include <cstdint>

#include "launch/accuracy/row_style.h"
#include "launch/prediction/device_memory.h"
#include "replayer/memory/stage_memory.h"

namespace prism::launch {
namespace {

// A context of CUDA 13 with PyTorch 2.10, its kernels loaded lazily: 426 MiB on an RTX 6000 Ada
// (pull request 1053 of unsloth-zoo).
constexpr int64_t kContextBytes = int64_t{426} << 20;

enum class Counter : uint8_t { kAllocated, kReserved, kDevice };

// nanotron's benchmark resets the peaks after the passes and reads them after the optimizer's step,
// so what it prints, which grows with the activations, is reserved memory.
Counter CounterOf(const PublishedRow& row) {
  if (FamilyOfRow(row) == FrameworkFamily::kNanotron) {
    return Counter::kReserved;
  }
  if (row.Says("mem_kind", "nvidia-smi")) {
    return Counter::kDevice;
  }
  return row.Says("mem_kind", "reserved") ? Counter::kReserved : Counter::kAllocated;
}

// What PyTorch can have on a rank of the stage.
int64_t DeviceBytes(const graph::ClusterSpec& cluster, const graph::JobSpec& job, int32_t stage) {
  const graph::ParallelSizes& sizes = job.parallel;
  const bool spans_nodes = sizes.tp * sizes.cp * sizes.dp > cluster.gpus_per_node;
  const auto of_groups =
      static_cast<int64_t>(cluster.parameters.Value("memory.network_groups_bytes"));
  return cluster.gpu.memory_bytes - OutsideAllocatorBytes(cluster, job, stage) -
         (spans_nodes ? of_groups : 0);
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
                              const graph::ClusterSpec& cluster,
                              Assumptions* assumptions) {
  replayer::StageMemoryOptions options = MemoryOptionsOf(cluster);
  const Counter counter = CounterOf(row);
  const int32_t last = job.parallel.pp - 1;
  const bool only_last = row.Says("mem_rank", "last");
  const bool only_first = row.Says("mem_rank", "rank 0");
  int64_t most = 0;
  for (int32_t stage = only_last ? last : 0; stage <= (only_first ? 0 : last); ++stage) {
    options.device_bytes = DeviceBytes(cluster, job, stage);
    PRISM_ASSIGN_OR_RETURN(const replayer::StageMemory memory,
                           replayer::PredictStageMemory(job, style, stage, options));
    most = std::max(most, BytesOf(memory, counter));
  }
  if (counter == Counter::kReserved && row.Says("mem_kind", "max_memory_allocated")) {
    assumptions->Add("memory: reserved, as the benchmark's code has it");
  }
  if (counter == Counter::kDevice) {
    assumptions->Add("memory: a context of 426 MiB, NCCL's buffers not counted");
  }
  return static_cast<double>(most);
}

}  // namespace prism::launch
