// What a traced rank did in its steady iteration, moment by moment, for pictures.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/graph.h"
#include "replayer/engine/breakdown.h"
#include "replayer/engine/replay_result.h"

namespace prism::replayer {

// The kinds into which RankTimes divides an iteration; where several apply at the same moment, the
// first counts.
enum class SpanKind : uint8_t { kCompute, kExposedComm, kBubble, kIdle };
inline constexpr size_t kSpanKinds = 4;

struct ActivitySpan {
  TimeNs begin = 0;
  TimeNs end = 0;
  SpanKind kind = SpanKind::kIdle;

  bool operator==(const ActivitySpan&) const = default;
};

// Consecutive spans of different kinds from Timeline::steady_begin on, with the total length
// `times.iteration_ns`; the sums over the kinds are the rank's `times`. In a group of messages that
// begin to move one after the other, everything from the first one's begin on counts as transfer.
std::vector<ActivitySpan> SteadyActivity(const graph::Graph& graph,
                                         const Timeline& timeline,
                                         const RankTimes& times);

}  // namespace prism::replayer
