// A machine as NCCL found it (NCCL_TOPO_DUMP_FILE, XML) → the network of a cluster.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "graph/base/status.h"
#include "graph/job/cluster.h"

namespace prism::launch {

struct NcclTopology {
  int64_t gpus = 0;
  int64_t compute = 0;         // 90 for 9.0, of the first GPU
  int64_t links = 0;           // NVLinks of the GPU that has fewest
  int64_t nics = 0;            // as fast as the fastest
  double nic_bytes_per_s = 0;  // of one of them
  int64_t slower_nics = 0;
};

// kBadFile: "<file>: ...".
Result<NcclTopology> ParseNcclTopology(std::string_view text, const std::string& file);

// The cluster preset of that GPU; "": none has it.
std::string PresetOfCompute(int64_t compute);

// Sets what the file says; appends what it leaves open to `notes`.
void UseNcclTopology(const NcclTopology& topology,
                     const std::string& file,
                     graph::ClusterSpec* cluster,
                     std::vector<std::string>* notes);

}  // namespace prism::launch
