// `prism replay GRAPH --vary KEY:FROM:TO:STEPS`: a recorded job on hypothetical hardware.
#pragma once

#include <string>
#include <vector>

#include "graph/base/status.h"
#include "launch/options/variation.h"
#include "launch/run/valid_graph.h"
#include "launch/verbs/verb.h"
#include "replayer/replay.h"
#include "replayer/report/summary.h"

namespace prism::launch {

struct ReplayPoint {
  double value = 0;
  replayer::Summary summary;
};

struct ReplaySweep {
  Variation variation;
  std::vector<std::string> assumptions;
  std::vector<ReplayPoint> points;
};

// The job at each value, ascending by step. Fails on a key that the graph's cluster does not have,
// and on values that no cost can be computed with.
Result<ReplaySweep> SweepReplay(const LoadedGraph& loaded,
                                const replayer::ReplayOptions& options,
                                const Variation& variation);

// A line a value: iteration time with its interval, throughput, what the iteration is made of.
std::string ReplaySweepText(const ReplaySweep& sweep);
std::string ReplaySweepJson(const ReplaySweep& sweep);
std::string ReplaySweepCsv(const ReplaySweep& sweep);

// The iteration time over the values.
std::string ReplaySweepSvg(const ReplaySweep& sweep);

}  // namespace prism::launch
