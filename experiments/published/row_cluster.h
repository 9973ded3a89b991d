// The machine that a published row ran on, as profiles of launch/presets/.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "experiments/published/published_row.h"

namespace prism::launch {

struct RowCluster {
  std::vector<std::string> profiles;  // of NCCL, framework, network, spread and GPU
  int32_t gpus_per_node = 8;          // of an NVLink domain
  std::string gpu;                    // name of the GPU's profile
  std::string network;                // name of the network's profile

  bool operator==(const RowCluster&) const = default;
};

// For a job on `gpus` GPUs. Never fails: an unknown GPU is treated as the one whose data sheet fits
// best, and this is noted.
RowCluster ClusterOfRow(const PublishedRow& row, int64_t gpus);

}  // namespace prism::launch
