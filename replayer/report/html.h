// A replay as one self-contained HTML file, without network access or scripts: the summary, what a
// rank of each pipeline stage does over the iteration, memory by role, how ranks differ, the
// busiest communicators, on request what would shorten the iteration, every warning and assumption,
// and summary.json for other programs.
#pragma once

#include <string>
#include <vector>

#include "graph/graph.h"
#include "replayer/report/summary.h"
#include "replayer/what_matters.h"

namespace prism::replayer {

struct ReplayResult;

// The ranks whose timelines the report shows: the lowest of each pipeline stage; if there are more
// than 64 stages, of 64 evenly spread ones.
std::vector<Rank> RanksInHtml(const graph::Graph& graph);

// `result` belongs to `graph` and has the timelines of those ranks. `matters` may be null. The same
// input gives the same bytes.
std::string HtmlReport(const graph::Graph& graph,
                       const ReplayResult& result,
                       const Summary& summary,
                       const WhatMatters* matters);

}  // namespace prism::replayer
