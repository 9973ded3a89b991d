// --perturb options → replayer::Perturbation.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "graph/base/status.h"
#include "graph/cluster.h"
#include "graph/job.h"
#include "launch/options/options.h"
#include "replayer/replay.h"

namespace prism::launch {

// Numbers and ranges of ranks with + between them ("0-7+12"), ascending, none twice.
// kInvalidArgument for what is not, and for ranks that the job does not have.
Result<std::vector<Rank>> ParseRankRanges(std::string_view text, const graph::JobSpec& job);

// One option, of the forms of kPerturbationForms, for a job on such a cluster and a replay of such
// a network and that many iterations. What is wrong is kInvalidArgument, of a text from a file
// kBadFile that names it.
Result<replayer::Perturbation> ParsePerturbation(const PerturbationText& given,
                                                 const graph::JobSpec& job,
                                                 const graph::ClusterSpec& cluster,
                                                 const replayer::ReplayOptions& replay);

// What a flow replay of only the job would find wrong with its network: that it cannot join the
// nodes, or lacks what fail: names. Builds the network, which of a large job takes a while.
Status CheckNetwork(const Options& options,
                    const graph::JobSpec& job,
                    const graph::ClusterSpec& cluster);

// The replay that these options ask for.
Result<replayer::ReplayOptions> MakeReplayOptions(const Options& options,
                                                  const graph::JobSpec& job,
                                                  const graph::ClusterSpec& cluster);

}  // namespace prism::launch
