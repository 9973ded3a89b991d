#include "replayer/replay.h"

#include <algorithm>
#include <string>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "replayer/engine.h"

namespace prism::replayer {

Result<ReplayResult> Replay(const graph::Graph& graph, const ReplayOptions& options) {
  PRISM_ASSIGN_OR_RETURN(Engine engine, Engine::Create(graph, options, {}));
  if (!engine.Run()) {
    constexpr size_t kLinesShown = 8;
    std::vector<std::string> lines = engine.DescribeStall();
    size_t hidden = lines.size() - std::min(lines.size(), kLinesShown);
    lines.resize(lines.size() - hidden);
    if (hidden > 0) {
      lines.push_back(fmt::format("{} more wait", hidden));
    }
    return RunFailed(fmt::format("the replay stalls: {}", fmt::join(lines, "; ")));
  }
  return engine.Summarise();
}

}  // namespace prism::replayer
