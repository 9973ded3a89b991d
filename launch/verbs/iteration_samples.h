// The distribution of the iteration time under noise: one replay a seed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graph/base/status.h"
#include "graph/base/time.h"
#include "graph/graph.h"
#include "launch/options/options.h"
#include "replayer/replay.h"

namespace prism::launch {

struct IterationSamples {
  std::vector<DurationNs> iteration_ns;  // ascending

  // The smallest value that so many percent of the samples do not exceed.
  [[nodiscard]] DurationNs Percentile(int percent) const;
};

// Steady iteration times with `count` seeds drawn from options.seed. kInvalidArgument where no
// perturbation depends on the seed: all samples would be the same.
Result<IterationSamples> SampleIterations(const graph::Graph& graph,
                                          replayer::ReplayOptions options,
                                          int64_t count);

// p50, p90 and p99 with the extremes.
std::string SamplesText(const IterationSamples& samples, OutputFormat format);

}  // namespace prism::launch
