// The files of the output folder and the final block on stdout.
#pragma once

#include <string>
#include <vector>

#include "graph/base/status.h"
#include "launch/run/master.h"
#include "launch/run/output_folder.h"
#include "launch/run/run_context.h"
#include "replayer/report/summary.h"

namespace prism::launch {

// Numbers of a run that belong to this machine and day: run.json.
struct RunRecord {
  std::vector<std::string> command;
  int processes = 1;
  int64_t max_rss_bytes = 0;
  std::string graph_hash;  // of graph.prism
};

// Writes all files but run.json.
Status WriteResultFiles(const RunContext& context,
                        const RunOutcome& outcome,
                        const replayer::Summary& summary,
                        OutputFolder* folder);

std::string RunJson(const RunRecord& record, const RunOutcome& outcome);

// "slice 12.1 s, build 0.8 s, ...".
std::string WallText(const WallTimes& wall);

// What --dry-run prints: the plan.
std::string PlanText(const RunContext& context);

}  // namespace prism::launch
