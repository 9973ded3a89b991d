// KEY:FROM:TO:STEPS of --vary: one number of a cluster at several values, for hypothetical hardware
// and prices.
#pragma once

#include <string>

#include "graph/base/status.h"
#include "graph/job/cluster.h"

namespace prism::launch {

// STEPS values from FROM to TO, evenly spaced, all above 0. KEY: a parameter of the cluster
// ("net.nic_bytes_per_s"), "gpu.memory_bytes", or "costs." or "host_memory." and a key of these.
struct Variation {
  std::string key;
  double from = 0;
  double to = 0;
  int steps = 2;

  [[nodiscard]] double ValueAt(int step) const;
};

Result<Variation> ParseVariation(const std::string& text);

// The cluster with that parameter, or GPU memory, set to that value. kInvalidArgument for a key
// that it does not have.
Result<graph::ClusterSpec> VariedCluster(const graph::ClusterSpec& cluster,
                                         const std::string& key,
                                         double value);

}  // namespace prism::launch
