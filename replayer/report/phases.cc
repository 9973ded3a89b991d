// The phases of a program without iterations, by when its rank issued the ends of its ranges.
#include <algorithm>

#include "graph/base/check.h"
#include "replayer/report/summary.h"

namespace prism::replayer {

std::vector<Phase> PhasesOf(const graph::Graph& graph, const ReplayResult& result) {
  PRISM_CHECK(!result.timelines.empty());
  const Timeline& times = result.timelines.front();
  const graph::Program& program = graph.role_of(times.rank).program;
  const TimeNs begin = times.issue.front();
  TimeNs reached = begin;
  std::vector<Phase> phases;
  const auto add = [&](const std::string& name, TimeNs end) {
    auto phase = std::ranges::find(phases, name, &Phase::name);
    if (phase == phases.end()) {
      phase = phases.insert(phase, Phase{.name = name, .count = 0, .seconds = 0});
    }
    ++phase->count;
    phase->seconds += SecondsFromNs(end - reached);
    reached = end;
  };
  int depth = 0;
  std::string range;                                  // that is open
  for (uint32_t op = 1; op < program.size(); ++op) {  // the first one begins the program
    if (program.kind[op] != graph::OpKind::kMarker) {
      continue;
    }
    if ((program.flags[op] & graph::kMarkerBegin) != 0) {
      if (depth++ == 0) {
        add(phases.empty() ? "start" : "between", times.issue[op]);
        range = graph.strings[program.signature[op]];
      }
    } else if (depth > 0 && --depth == 0) {
      add(range, times.issue[op]);
    }
  }
  add(phases.empty() ? "program" : "end", begin + result.ranks[times.rank.value()].iteration_ns);
  return phases;
}

}  // namespace prism::replayer
