// What the host called in one step, in the order in which the calls took effect.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "graph/base/time.h"
#include "slicer/import/kineto/trace_file.h"

namespace prism::slicer {

// The host's clock and the GPU's, which CUPTI puts on one scale, differ by less.
inline constexpr DurationNs kClockSkewNs = 5 * kNsPerUs;

inline constexpr uint32_t kNoTask = 0xFFFFFFFFU;

enum class HostCallKind : uint8_t {
  kLaunch,       // makes the GPU do something
  kWaitEvent,    // the next launch of its thread waits for other streams
  kSynchronise,  // the host waits for the GPU
};

struct HostCall {
  HostCallKind kind = HostCallKind::kLaunch;
  const KinetoRange* range = nullptr;
  std::span<const uint32_t> tasks;  // kLaunch: indices into KinetoTrace::tasks, by begin
  uint32_t blocks_on = kNoTask;     // kLaunch: the task whose end made room in a full queue
};

// The calls of a profile, which must outlive this, as this must what it returns.
class HostCalls {
 public:
  explicit HostCalls(const KinetoTrace& trace);

  // The calls that begin in [begin, end), of all threads. A synchronisation is placed where it
  // ends: other threads continue meanwhile. Calls that neither launch nor wait are host time like
  // any other.
  [[nodiscard]] std::vector<HostCall> In(TimeNs begin, TimeNs end) const;

  // Calls `visit(call, task)` for the tasks of launches that begin before `end`, by begin.
  template <typename Visit>
  void VisitLaunches(TimeNs end, const Visit& visit) const {
    for (size_t at = 0; at < tasks_.size() && trace_.calls[at].begin_ns < end; ++at) {
      for (const uint32_t task : tasks_[at]) {
        visit(trace_.calls[at], task);
      }
    }
  }

  // Launches that begin in [begin, end): those whose tasks the profile has, and kernels it lacks.
  struct Launches {
    int64_t seen = 0;
    int64_t lost = 0;
  };
  [[nodiscard]] Launches LaunchesIn(TimeNs begin, TimeNs end) const;

  // Launches of the profile that blocked because the queue was full.
  [[nodiscard]] int64_t blocked() const { return blocked_; }

  // Number of tasks that begin in [begin, end) and that no recorded call launched.
  [[nodiscard]] int64_t TasksWithoutCall(TimeNs begin, TimeNs end) const;

 private:
  void Pair(const std::vector<std::pair<int64_t, uint32_t>>& by_id);
  void FindBlocked();
  [[nodiscard]] size_t FirstFrom(TimeNs begin) const;

  const KinetoTrace& trace_;
  std::vector<uint32_t> by_call_;                 // tasks of one call beside each other
  std::vector<std::span<const uint32_t>> tasks_;  // by call
  std::vector<bool> has_call_;                    // by task
  std::vector<uint32_t> blocks_on_;               // by call: as HostCall has it
  int64_t blocked_ = 0;
};

}  // namespace prism::slicer
