// What a traced rank did in its steady iteration, moment by moment: for pictures of it.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/graph.h"
#include "replayer/breakdown.h"
#include "replayer/replay.h"

namespace prism::replayer {

// As RankTimes divides an iteration; of what holds at a moment the first counts.
enum class SpanKind : uint8_t { kCompute, kExposedComm, kBubble, kIdle };
inline constexpr size_t kSpanKinds = 4;

struct ActivitySpan {
  TimeNs begin = 0;
  TimeNs end = 0;
  SpanKind kind = SpanKind::kIdle;

  bool operator==(const ActivitySpan&) const = default;
};

// Spans of different kinds one after the other from Timeline::steady_begin on, together as long as
// `times.iteration_ns`: the rank's, whose parts are the sums over the kinds. Of a group of messages
// that begin to move one after the other all but the first are transfers from the first on.
std::vector<ActivitySpan> SteadyActivity(const graph::Graph& graph,
                                         const Timeline& timeline,
                                         const RankTimes& times);

}  // namespace prism::replayer
