// --perturb options → replayer::Perturbation.
#pragma once

#include <string_view>
#include <vector>

#include "graph/base/status.h"
#include "graph/job/cluster.h"
#include "graph/job/job.h"
#include "launch/inputs/options.h"
#include "replayer/engine/replay_options.h"
#include "replayer/perturb/perturbation.h"

namespace prism::launch {

// Numbers and ranges of ranks with + between them ("0-7+12"), ascending, none twice.
// kInvalidArgument for anything else, and for ranks that the job does not have.
Result<std::vector<Rank>> ParseRankRanges(std::string_view text, const graph::JobSpec& job);

// Parses one option in one of the forms of kPerturbationForms, for a job on that cluster and a
// replay with that network model and number of iterations. Faults are kInvalidArgument or, for a
// text from a file, kBadFile naming the file.
Result<replayer::Perturbation> ParsePerturbation(const PerturbationText& given,
                                                 const graph::JobSpec& job,
                                                 const graph::ClusterSpec& cluster,
                                                 const replayer::ReplayOptions& replay);

// What a flow replay of the job by itself would find wrong with its network: that it cannot connect
// the nodes, or lacks a part named by fail:. Builds the network, which takes a while for a large
// job.
Status CheckNetwork(const Options& options,
                    const graph::JobSpec& job,
                    const graph::ClusterSpec& cluster);

// The options of the replay that these options ask for.
Result<replayer::ReplayOptions> MakeReplayOptions(const Options& options,
                                                  const graph::JobSpec& job,
                                                  const graph::ClusterSpec& cluster);

}  // namespace prism::launch
