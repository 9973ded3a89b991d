// What the host called in one step, in the order in which the calls took effect.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/base/time.h"
#include "slicer/import/kineto/trace_file.h"

namespace prism::slicer {

// The host's clock and the GPU's, which CUPTI puts on one scale, differ by less.
inline constexpr DurationNs kClockSkewNs = 5 * kNsPerUs;

enum class HostCallKind : uint8_t {
  kLaunch,       // makes the GPU do something
  kWaitEvent,    // the next launch of its thread waits for other streams
  kSynchronise,  // the host waits for the GPU
};

struct HostCall {
  HostCallKind kind = HostCallKind::kLaunch;
  const KinetoRange* range = nullptr;
  std::vector<uint32_t> tasks;  // kLaunch: indices into KinetoTrace::tasks, by begin
};

// The calls of a profile, which must outlive this.
class HostCalls {
 public:
  explicit HostCalls(const KinetoTrace& trace);

  // The calls that begin in [begin, end), of all threads. A synchronisation is placed where it
  // ends: other threads continue meanwhile. Calls that neither launch nor wait are host time like
  // any other.
  [[nodiscard]] std::vector<HostCall> In(TimeNs begin, TimeNs end) const;

  // Number of tasks that begin in [begin, end) and that no recorded call launched.
  [[nodiscard]] int64_t TasksWithoutCall(TimeNs begin, TimeNs end) const;

 private:
  const KinetoTrace& trace_;
  std::vector<std::vector<uint32_t>>
      tasks_;                   // by call; of calls that share a correlation id, the first
  std::vector<bool> has_call_;  // by task
};

}  // namespace prism::slicer
