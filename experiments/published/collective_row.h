// Rows of a table of measured collectives (columns of nccl_busbw.csv): what was measured, and on
// which cluster to predict it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "graph/base/status.h"
#include "graph/job/cluster.h"
#include "launch/inputs/csv_table.h"
#include "launch/inputs/presets.h"
#include "replayer/cost/collective_cost.h"

namespace prism::launch {

// The cluster of a row: the profiles that compose it, network last, and what the row itself states
// about the NICs.
struct CollectivePlatform {
  std::string gpu;      // "gpus/h100-80"
  std::string network;  // "networks/aws-p5"
  int32_t gpus_per_node = 8;
  double nics_per_node = 0;  // 0: as in the profile
  double nic_bytes_per_s = 0;
  bool in_network_reduction = false;
  int32_t nccl_release = 0;  // as nccl.release; 0: as in the profile

  auto operator<=>(const CollectivePlatform&) const = default;
};

struct CollectiveRow {
  std::string id;
  std::string curve;  // rows of one sweep: source, collective, ranks, algorithm
  std::string collective;
  bool send_receive = false;
  graph::CollectiveShape shape;
  replayer::CommTopology topology;
  bool saturated = false;                            // no size printed: kSaturatedBytes
  std::optional<replayer::NcclAlgorithm> algorithm;  // where the run forced it
  CollectivePlatform platform;
  double measured_s = 0;           // out of place, from its time, otherwise from its bus bandwidth
  double measured_in_place_s = 0;  // 0: not printed
  std::string reason_skipped;
};

inline constexpr int64_t kSaturatedBytes = int64_t{16} << 30;

// Bus bandwidth over algorithm bandwidth, as nccl-tests defines it.
double BusFactor(const std::string& collective, int32_t ranks);

// Kind (or send and receive) by nccl-tests' name; kInvalidArgument for others.
Status SetCollective(const std::string& name, CollectiveRow* row);

Result<std::vector<CollectiveRow>> ReadCollectiveRows(const CsvTable& table);

// The profile with the bandwidth that NVLinks of the GPU's generation reach in collectives; ""
// without NVLink.
std::string LinksOf(const graph::ClusterSpec& cluster);

// The cluster, with `overrides` in place of values of its profiles.
Result<graph::ClusterSpec> ClusterOf(const CollectivePlatform& platform,
                                     const ProfileOverrides& overrides);

struct CollectivePrediction {
  double seconds = 0;
  std::optional<replayer::NcclChoice> choice;
};

CollectivePrediction Predict(const CollectiveRow& row, const replayer::CollectiveCost& cost);

}  // namespace prism::launch
