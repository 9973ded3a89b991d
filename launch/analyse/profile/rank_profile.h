// What one profile of torch.profiler says about a rank: where the time of its GPU goes, and by what
// its kernels, ops, launches, copies and memory are. Definitions are those of Holistic Trace
// Analysis where it has one; launch/REFERENCE.md says where they differ.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "graph/base/data_type.h"
#include "graph/base/enum_names.h"
#include "graph/base/status.h"
#include "graph/base/time.h"
#include "slicer/import/kineto/trace_file.h"

namespace prism::launch {

enum class TaskType : uint8_t { kCompute, kCommunication, kMemory };
inline constexpr EnumNames<TaskType, 3> kTaskTypeNames = {
    {{TaskType::kCompute, "compute"},
     {TaskType::kCommunication, "communication"},
     {TaskType::kMemory, "memory"}}};

// Tasks of one name.
struct TaskTotals {
  int64_t count = 0;
  DurationNs total_ns = 0;
  DurationNs shortest_ns = 0;
  DurationNs longest_ns = 0;
  DurationNs product_ns = 0;  // of matrix products whose shape and GPU are known
  double ideal_ns = 0;        // what their work takes at the GPU's rates

  void Add(const TaskTotals& other);
};

// Ops of one name: of the host, and the GPU's tasks that they launched themselves, not through an
// op inside them.
struct OpTotals {
  int64_t count = 0;
  DurationNs host_ns = 0;
  DurationNs host_self_ns = 0;  // without ops inside it
  int64_t tasks = 0;
  DurationNs gpu_ns = 0;

  void Add(const OpTotals& other);
};

// What one stream does between its first task and its last.
struct StreamProfile {
  int64_t device = 0;
  int64_t stream = 0;
  int64_t tasks = 0;
  DurationNs busy_ns = 0;
  // Gaps: the launch came after the stream had run dry; less than 30 us, as between any two
  // kernels; waits for other streams and all else.
  DurationNs host_wait_ns = 0;
  DurationNs kernel_wait_ns = 0;
  DurationNs other_wait_ns = 0;
  // Launches whose first task has not begun, at each launch and beginning.
  double mean_queue = 0;
  int64_t longest_queue = 0;
  DurationNs full_ns = 0;  // 1,024 or more of them
};

struct LaunchProfile {
  int64_t launches = 0;
  int64_t short_tasks = 0;  // the GPU takes less time than the launch
  int64_t slow = 0;         // the launch takes more than 50 us
  int64_t delayed = 0;      // its first task begins more than 100 us after it
  int64_t blocked = 0;      // the queue was full
  DurationNs host_ns = 0;
  DurationNs delay_ns = 0;  // from the launch's end to its first task
};

struct CopyTotals {
  int64_t count = 0;
  int64_t bytes = 0;
  DurationNs total_ns = 0;
  double fastest_gb_per_s = 0;  // of one

  void Add(const CopyTotals& other);
};

// The allocations of one device that the profile notes.
struct DeviceMemoryProfile {
  int64_t events = 0;
  int64_t peak_allocated_bytes = -1;  // -1: not stated
  int64_t peak_reserved_bytes = -1;
  int64_t last_allocated_bytes = -1;
  TimeNs peak_ns = 0;                                      // of what is allocated
  std::vector<std::pair<TimeNs, int64_t>> allocated = {};  // the most in each 256th of the time
};

// What an op allocated while the profile was made.
struct OpMemory {
  int64_t count = 0;
  int64_t bytes = 0;
  int64_t at_peak_bytes = 0;  // of them
};

struct RankProfile {
  std::string file;
  int64_t rank = -1;  // -1: not stated
  int64_t steps = 0;  // that count
  bool has_ops = false;
  bool is_cut_off = false;
  bool has_calls = true;  // of the host, to CUDA
  int64_t untimed = 0;    // events left out: their times are no numbers, or negative
  int64_t joined = 0;     // matrix products with shapes from an execution trace
  TimeNs begin_ns = 0;    // of the first task
  DurationNs span_ns = 0;
  DurationNs busy_ns = 0;
  DurationNs compute_ns = 0;
  DurationNs communication_ns = 0;
  DurationNs overlapped_ns = 0;  // communication during computation
  int64_t tasks_left_out = 0;    // of steps that do not count, or launched by no recorded call
  std::vector<StreamProfile> streams;
  LaunchProfile launches;
  std::map<std::pair<TaskType, std::string>, TaskTotals> kernels;
  std::map<std::string, OpTotals> ops;
  std::map<std::string, CopyTotals> copies;           // by "Memcpy HtoD"
  std::map<std::string, TaskTotals> stacks;           // of Python, the innermost function first
  std::map<std::string, DeviceMemoryProfile> memory;  // by "cuda:0"
  std::map<std::pair<std::string, std::string>, OpMemory> op_memory;  // by device and op
};

// Of a GPU; 0: not known.
struct GpuRates {
  double flops_per_s = 0;  // of products of the type
  double bytes_per_s = 0;  // of its memory
};
using GpuRatesOf =
    std::function<GpuRates(const std::string& gpu, int64_t memory_bytes, DataType type)>;

// Which steps count: those before the last one, which is often not whole, as Holistic Trace
// Analysis has it; all; or one. All of a profile that has one step or none.
struct ProfileChoice {
  bool last_step = false;
  int64_t step = -1;      // N of ProfilerStep#N
  GpuRatesOf rates = {};  // none: no share of them is told
};

// kBadFile where the step is not in the profile, or no task is left. `trace` with all parts.
Result<RankProfile> ProfileRank(const slicer::KinetoTrace& trace,
                                const ProfileChoice& choice,
                                const std::string& file);

}  // namespace prism::launch
