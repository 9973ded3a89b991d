// Splits a rank's iteration into compute, exposed communication, bubble and idle, exactly.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "graph/base/time.h"
#include "replayer/engine/replay_result.h"

namespace prism::replayer {

struct TimeRange {
  TimeNs begin = 0;
  TimeNs end = 0;

  bool operator==(const TimeRange&) const = default;
};

// What kept a rank busy, in order of precedence.
enum class ActivityKind : uint8_t { kCompute, kTransfer, kPeerWait };
inline constexpr size_t kActivityKinds = 3;

// What kept a rank busy, as ranges in any order; they may overlap and extend beyond the window.
struct Activity {
  std::vector<TimeRange> compute;
  std::vector<TimeRange> transfer;
  std::vector<TimeRange> peer_wait;  // before the transfer of a pipeline peer starts
};

// Activity that is counted as it arrives, so that few ranges are held at a time.
class Breakdown {
 public:
  void Add(ActivityKind kind, TimeRange range) {
    ranges_[static_cast<size_t>(kind)].push_back(range);
  }

  // Counts all activity in the part of the window before `window.end` that is not counted yet, and
  // forgets it. Every range added later begins at or after `window.end`.
  void Count(TimeRange window);

  // First match wins: compute, transfer, peer wait, the rest. Sums to window.end - window.begin,
  // provided that the windows of all calls of Count were within this one.
  [[nodiscard]] RankTimes Finish(TimeRange window);

  // By kind: time in which that kind or one before it was active.
  using Covered = std::array<DurationNs, kActivityKinds>;

 private:
  std::array<std::vector<TimeRange>, kActivityKinds> ranges_;
  Covered covered_ = {};
};

// The times of an iteration of which that much was covered.
RankTimes TimesOf(const Breakdown::Covered& covered, DurationNs iteration_ns);

RankTimes BreakDown(Activity activity, TimeRange window);

}  // namespace prism::replayer
