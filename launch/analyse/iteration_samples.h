// The distribution of the iteration time under noise: one replay per seed, distributed over
// processes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graph/base/status.h"
#include "graph/base/time.h"
#include "graph/graph.h"
#include "launch/inputs/options.h"
#include "launch/process/mpi_session.h"
#include "replayer/engine/replay_options.h"

namespace prism::launch {

struct IterationSamples {
  std::vector<DurationNs> iteration_ns;  // ascending

  // The smallest value that this percentage of the samples does not exceed.
  [[nodiscard]] DurationNs Percentile(int percent) const;
};

// Steady iteration times with `count` seeds drawn from options.seed. kInvalidArgument if no
// perturbation depends on the seed: all samples would be the same. All processes of the session get
// the same samples, which do not depend on how many there are.
Result<IterationSamples> SampleIterations(MpiSession& session,
                                          const graph::Graph& graph,
                                          replayer::ReplayOptions options,
                                          int64_t count);

// p50, p90 and p99, minimum and maximum.
std::string SamplesText(const IterationSamples& samples,
                        const std::vector<graph::Warning>& warnings,
                        OutputFormat format);

}  // namespace prism::launch
