#include "graph/program/program_cuts.h"

#include <algorithm>

namespace prism::graph {

std::vector<bool> CutPlaces(const Program& program) {
  std::vector<uint32_t> needed(program.size());  // by op: the last op that waits for it
  for (uint32_t op = 0; op < program.size(); ++op) {
    const bool waits =
        program.kind[op] == OpKind::kEventWait || program.kind[op] == OpKind::kEventSync;
    if (waits && program.dep[op] != kNoDep) {
      needed[program.dep[op]] = op;
    }
  }
  std::vector<bool> places(size_t{program.size()} + 1);
  uint32_t last = 0;  // last op that waits for anything recorded so far
  for (uint32_t op = 0; op < program.size(); ++op) {
    const bool grouped = op > 0 && (program.flags[op - 1] & kGroupedWithNext) != 0;
    places[op] = op == 0 || (last < op && !grouped);
    last = std::max(last, needed[op]);
  }
  places.back() = true;
  return places;
}

}  // namespace prism::graph
