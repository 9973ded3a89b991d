// When a rank has something to do: its kernels, copies and transfers, not what it waits for.
#pragma once

#include <vector>

#include "graph/base/ids.h"
#include "graph/base/status.h"
#include "graph/graph.h"
#include "replayer/engine/breakdown.h"

namespace prism::replayer {

struct ReplayOptions;

class BusyTime {
 public:
  // Replays once, with the rank traced.
  static Result<BusyTime> Of(const graph::Graph& graph, const ReplayOptions& options, Rank rank);

  explicit BusyTime(std::vector<TimeRange> ranges);

  // How much of the range it is busy.
  [[nodiscard]] DurationNs Within(TimeRange range) const {
    return Before(range.end) - Before(range.begin);
  }

 private:
  [[nodiscard]] DurationNs Before(TimeNs time) const;

  std::vector<TimeRange> ranges_;   // disjoint, ascending
  std::vector<DurationNs> before_;  // by range: sum of those before it
};

}  // namespace prism::replayer
