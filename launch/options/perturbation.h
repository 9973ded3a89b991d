// --perturb options → replayer::Perturbation.
#pragma once

#include <string>

#include "graph/base/status.h"
#include "graph/cluster.h"
#include "graph/job.h"
#include "launch/options/options.h"
#include "replayer/replay.h"

namespace prism::launch {

// One option, of the forms of kPerturbationForms. kInvalidArgument saying what is wrong.
Result<replayer::Perturbation> ParsePerturbation(const std::string& text,
                                                 const graph::JobSpec& job);

// The replay that these options ask for.
Result<replayer::ReplayOptions> MakeReplayOptions(const Options& options,
                                                  const graph::JobSpec& job);

}  // namespace prism::launch
