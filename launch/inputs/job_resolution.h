// Options, presets and layout rules → graph::JobSpec. Depends on nothing else, so every process
// resolves the same job.
#pragma once

#include <string>
#include <vector>

#include "graph/base/status.h"
#include "graph/job/cluster.h"
#include "graph/job/job.h"
#include "launch/inputs/options.h"
#include "launch/inputs/presets.h"

namespace prism::launch {

struct ResolvedJob {
  graph::JobSpec job;
  std::string layout_origin;  // LayoutChoice::origin, for the printed plan
};

// Fills in what the user left open. tp and pp: launch/inputs/layout_choice.h; dp: the rest; global
// batch: the preset's, clamped to the range that gives a rank at least pp and at most max(8 pp, 32)
// micro-batches.
//
// kInvalidArgument, saying what, where and what to do, when something does not divide.
Result<ResolvedJob> ResolveJob(const Options& options,
                               const ModelPreset& preset,
                               const graph::ClusterSpec& cluster);

// The same for a user's program: degrees that are not given are 1, dp is the rest, and what the
// program trains is not known.
Result<ResolvedJob> ResolveProgramJob(const Options& options, const graph::ClusterSpec& cluster);

// The given options that change nothing of a user's program: what it does, it does by its own
// options, and a batch without a length of sequences gives no tokens a second.
std::vector<std::string> OptionsWithoutEffect(const Options& options);

// Sets the layout that a program turned out to have. A global batch that was not given is derived
// from dp.
void SetProgramLayout(const Options& options,
                      const graph::ParallelSizes& sizes,
                      graph::JobSpec* job);

}  // namespace prism::launch
