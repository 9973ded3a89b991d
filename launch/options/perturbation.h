// --perturb options → replayer::Perturbation.
#pragma once

#include <string>

#include "graph/base/status.h"
#include "graph/cluster.h"
#include "graph/job.h"
#include "launch/options/options.h"
#include "replayer/replay.h"

namespace prism::launch {

// One option: straggler:RANKS:FACTOR, link:NODE-NODE:FACTOR, kill:RANK@ITERATION,
// late:RANK:SECONDS or jitter:FRACTION. RANKS are numbers and ranges with + between them
// (straggler:0-7+64:1.5). kInvalidArgument saying what is wrong.
Result<replayer::Perturbation> ParsePerturbation(const std::string& text,
                                                 const graph::JobSpec& job);

// The replay that these options ask for.
Result<replayer::ReplayOptions> MakeReplayOptions(const Options& options,
                                                  const graph::JobSpec& job);

}  // namespace prism::launch
