// `prism replay GRAPH --vary KEY:FROM:TO:STEPS`: a recorded job on hypothetical hardware.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "graph/base/status.h"
#include "graph/validate/valid_graph.h"
#include "launch/inputs/variation.h"
#include "replayer/edit/edit.h"
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
  std::vector<graph::Warning> warnings;  // of perturbations, at the first value
};

// What is replayed on a varied cluster: the graph itself, or an edited version of it.
using JobAtValue =
    std::function<Result<replayer::EditedJob>(const graph::Graph& graph, double value)>;

// The job at each value, in the order of the steps. Fails on a key that the graph's cluster does
// not have, on values for which no cost can be computed, and if `job` fails.
Result<ReplaySweep> SweepReplay(const graph::LoadedGraph& loaded,
                                const Variation& variation,
                                const JobAtValue& job);

// One line per value: iteration time with its interval, throughput, breakdown of the iteration.
std::string ReplaySweepText(const ReplaySweep& sweep);
std::string ReplaySweepJson(const ReplaySweep& sweep);
std::string ReplaySweepCsv(const ReplaySweep& sweep);

// The iteration time over the values.
std::string ReplaySweepSvg(const ReplaySweep& sweep);

}  // namespace prism::launch
