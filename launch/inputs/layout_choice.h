// tp and pp of a model on the target's GPUs: as given, else the preset's if they divide the GPUs,
// else the smallest product (tp inside a node, larger tp first) whose fullest rank takes at most 75
// % of device memory, as forecasts predict it (replayer/memory/device_memory.h), else the one that
// takes least, if that is at most 90 %.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "graph/base/status.h"
#include "graph/job/cluster.h"
#include "graph/job/job.h"
#include "launch/inputs/options.h"
#include "launch/inputs/presets.h"

namespace prism::launch {

struct Layout {
  int32_t tp = 1;
  int32_t pp = 1;
  int32_t cp = 1;  // as given
  int32_t ep = 1;  // inside dp, hence not a factor of the GPUs

  [[nodiscard]] int64_t product() const { return int64_t{tp} * pp * cp; }
};

struct LayoutChoice {
  Layout layout;
  std::string origin;  // "given", "preset" or "chosen: ...", for the printed plan
};

// The job of the options with a layout, for its memory.
using JobOfLayout = std::function<graph::JobSpec(const Options&, const Layout&)>;

// kInvalidArgument, saying what, where and what to do, when something does not divide or fit.
Result<LayoutChoice> ChooseLayout(const Options& options,
                                  const ModelPreset& preset,
                                  const graph::ClusterSpec& cluster,
                                  const JobOfLayout& job_of);

// Checks that the number of GPUs is a multiple of tp × pp × cp.
Status CheckProduct(int32_t gpus, const Layout& layout);

}  // namespace prism::launch
