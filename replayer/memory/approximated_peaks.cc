#include "replayer/memory/approximated_peaks.h"

#include <algorithm>
#include <map>

namespace prism::replayer {
namespace {

bool WasRecorded(graph::RankSource source) {
  return source == graph::RankSource::kRecorded || source == graph::RankSource::kSandbox;
}

}  // namespace

PeakSpread SpreadOfApproximated(const graph::Graph& graph, int32_t stage) {
  // Roles that serve other ranks precede those of single recorded ranks.
  std::map<int32_t, int64_t> peak_of_stage;
  for (const graph::Role& role : graph.roles) {
    peak_of_stage.emplace(role.stage, role.memory.peak_allocated);
  }
  std::map<int32_t, PeakSpread> spreads;
  PeakSpread widest;
  for (uint32_t rank = 0; rank < graph.ranks.size(); ++rank) {
    if (!WasRecorded(graph.ranks.source[rank])) {
      continue;
    }
    const graph::Role& role = graph.role_of(Rank(rank));
    const int64_t more = role.memory.peak_allocated - peak_of_stage.at(role.stage);
    for (PeakSpread* spread : {&spreads[role.stage], &widest}) {
      ++spread->ranks;
      spread->above = std::max(spread->above, more);
      spread->below = std::max(spread->below, -more);
    }
  }
  return spreads[stage].ranks > 1 ? spreads[stage] : widest;
}

}  // namespace prism::replayer
