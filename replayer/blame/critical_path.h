// The critical path of a steady iteration: what determined its length, through all ranks.
//
// Walked backwards over exact times, from the end of the slowest rank's last iteration to its
// beginning: an op began when its stream was free, or when the host issued it; a wait ended with
// its event; a collective began with its last member, a transfer with the later of its two ends;
// the host waited for a stream. Whatever determined a time ended at that time, so the steps follow
// each other without a gap, and their lengths sum to the iteration to the nanosecond. Where two
// things determined a time equally, the path stays on the rank and on its stream.
//
// Ranks that have equal times share one timeline, and only a few timelines are kept at a time:
// where the path reaches a rank without one, the job is replayed with that rank and its neighbours
// traced.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/base/ids.h"
#include "graph/base/status.h"
#include "graph/base/time.h"
#include "graph/graph.h"

namespace prism::replayer {

struct ReplayOptions;

enum class PathKind : uint8_t {
  kCompute,   // a kernel, or a copy inside the device
  kCopy,      // from or to the host
  kOverlap,   // compute time added by a collective that ran beside it
  kTransfer,  // of a collective or a send: from its last arrival to its end
  kHost,      // the host issues the op, or sleeps before it
  kLate,      // a rank has not begun yet
};

struct PathStep {
  Rank rank;
  uint32_t op = 0;  // of the rank's program
  PathKind kind = PathKind::kCompute;
  Rank partner;  // kTransfer of a send or receive: the other side, else the rank itself
  TimeNs begin = 0;
  TimeNs end = 0;

  [[nodiscard]] DurationNs duration() const { return end - begin; }
};

struct CriticalPath {
  Rank rank;                    // the slowest, lowest number first: where the path ends
  TimeNs begin = 0;             // of its last iteration
  TimeNs end = 0;               // and where the next could begin
  std::vector<PathStep> steps;  // ascending in time; none of length 0
  int64_t replays = 0;          // that were needed
};

// Fails where a replay fails, and where the slowest rank does nothing on a device. `options.traced`
// and `options.breakdown` have no effect.
Result<CriticalPath> FindCriticalPath(const graph::Graph& graph, const ReplayOptions& options);

}  // namespace prism::replayer
