// A cluster as a file that `--cluster FILE` reads: complete, without profiles, so that a later
// version of a profile does not change it.
#pragma once

#include <string>

#include "graph/job/cluster.h"

namespace prism::launch {

std::string ClusterText(const graph::ClusterSpec& cluster);

}  // namespace prism::launch
