// `prism replay GRAPH --vary KEY:FROM:TO:STEPS`: a recorded job on hypothetical hardware.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "graph/base/status.h"
#include "graph/valid_graph.h"
#include "launch/options/variation.h"
#include "replayer/delta/edit.h"
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
  std::vector<graph::Warning> warnings;  // of perturbations, at the first value
};

// What is replayed of the graph on a varied cluster: itself, or what an edit makes of it there.
using JobAtValue =
    std::function<Result<replayer::EditedJob>(const graph::Graph& graph, double value)>;

// The job at each value, ascending by step. Fails on a key that the graph's cluster does not have,
// on values that no cost can be computed with, and where `job` does.
Result<ReplaySweep> SweepReplay(const graph::LoadedGraph& loaded,
                                const Variation& variation,
                                const JobAtValue& job);

// A line a value: iteration time with its interval, throughput, what the iteration is made of.
std::string ReplaySweepText(const ReplaySweep& sweep);
std::string ReplaySweepJson(const ReplaySweep& sweep);
std::string ReplaySweepCsv(const ReplaySweep& sweep);

// The iteration time over the values.
std::string ReplaySweepSvg(const ReplaySweep& sweep);

}  // namespace prism::launch
