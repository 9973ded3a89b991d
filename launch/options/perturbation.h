// --perturb options → replayer::Perturbation.
#pragma once

#include <string>

#include "graph/base/status.h"
#include "graph/cluster.h"
#include "graph/job.h"
#include "launch/options/options.h"
#include "replayer/replay.h"

namespace prism::launch {

// One option, of the forms of kPerturbationForms, for a replay of such a network and so many
// iterations. What is wrong is kInvalidArgument, of a text from
// a file kBadFile that names it.
Result<replayer::Perturbation> ParsePerturbation(const PerturbationText& given,
                                                 const graph::JobSpec& job,
                                                 const replayer::ReplayOptions& replay);

// The replay that these options ask for.
Result<replayer::ReplayOptions> MakeReplayOptions(const Options& options,
                                                  const graph::JobSpec& job);

}  // namespace prism::launch
