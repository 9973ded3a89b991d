#include "replayer/replay.h"

#include <utility>
#include <vector>

#include "replayer/engine/engine.h"
#include "replayer/engine/network_model.h"
#include "replayer/network/flow_replay.h"

namespace prism::replayer {

Result<ReplayResult> Replay(const graph::Graph& graph, const ReplayOptions& options) {
  if (options.network == NetworkModel::kFlow && options.frozen == nullptr) {
    PRISM_ASSIGN_OR_RETURN(std::vector<ReplayResult> results, ReplayTogether({{&graph, options}}));
    return std::move(results.front());
  }
  PRISM_ASSIGN_OR_RETURN(Engine engine, Engine::Create(graph, options, {}));
  if (!engine.Run()) {
    return StallStatus(engine);
  }
  return engine.Summarise();
}

}  // namespace prism::replayer
