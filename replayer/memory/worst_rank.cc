#include "replayer/memory/worst_rank.h"

namespace prism::replayer {

Rank WorstRank(const graph::Graph& graph) {
  Rank worst;
  int64_t most = -1;
  for (uint32_t rank = 0; rank < graph.ranks.size(); ++rank) {
    int64_t bytes = graph.role_of(Rank(rank)).memory.device_bytes();
    if (bytes > most) {
      most = bytes;
      worst = Rank(rank);
    }
  }
  return worst;
}

}  // namespace prism::replayer
