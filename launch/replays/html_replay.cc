#include "launch/replays/html_replay.h"

#include "graph/base/file.h"
#include "launch/replays/replay_summary.h"
#include "replayer/report/html.h"

namespace prism::launch {

Status WriteHtmlReplay(const graph::LoadedGraph& loaded,
                       replayer::ReplayOptions options,
                       const std::string& path) {
  options.traced = replayer::RanksInHtml(loaded.graph);
  PRISM_ASSIGN_OR_RETURN(const replayer::ReplayResult result,
                         replayer::Replay(loaded.graph, options));
  PRISM_ASSIGN_OR_RETURN(const replayer::Summary summary,
                         SummaryOf(loaded, options, result, Warns::kOfNoEffect));
  return WriteFileAtomically(path, replayer::HtmlReport(loaded.graph, result, summary));
}

}  // namespace prism::launch
