// The cluster as numbers, each with its source: what the virtual device imitates and what the cost
// models read. Plain structs; launch/inputs/presets.h reads them from TOML.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace prism::graph {

// How a number is known.
enum class Mark : uint8_t { kMeasured, kFitted, kAssumed };

// One parameter of a preset: key ("gpu.hbm_efficiency"), value, unit, source, mark.
struct Parameter {
  std::string key;
  double value = 0;
  std::string unit;
  std::string source;
  Mark mark = Mark::kAssumed;

  bool operator==(const Parameter&) const = default;
};

// All parameters of a cluster preset, ordered by key. Cost models read by key through Value(); a
// missing key is a damaged preset and is refused when the preset is read
// (launch/inputs/presets.h), so Value() checks.
class ParameterTable {
 public:
  ParameterTable() = default;
  explicit ParameterTable(std::vector<Parameter> parameters);  // sorts by key; keys are distinct

  [[nodiscard]] double Value(std::string_view key) const;
  [[nodiscard]] double ValueOr(std::string_view key, double fallback) const;
  [[nodiscard]] const Parameter* Find(std::string_view key) const;
  [[nodiscard]] const std::vector<Parameter>& all() const { return parameters_; }

  // Changes the value of a key that exists; unit, source and mark stay.
  void SetValue(std::string_view key, double value);

  // Adds parameters of distinct keys; one whose key already exists replaces it.
  void Put(const std::vector<Parameter>& parameters);

  bool operator==(const ParameterTable&) const = default;

 private:
  std::vector<Parameter> parameters_;
};

// What the virtual device reports about itself: the values of cudaDeviceProp that kernels size
// their grids by, and how device memory behaves.
struct GpuSpec {
  std::string name;  // as cudaGetDeviceProperties reports it
  int32_t compute_major = 0;
  int32_t compute_minor = 0;
  int32_t sm_count = 0;
  int64_t memory_bytes = 0;  // total as cudaMemGetInfo reports it
  int64_t l2_bytes = 0;
  int64_t shared_memory_per_sm = 0;           // bytes
  int64_t shared_memory_per_block_optin = 0;  // bytes
  bool segments_ascending = true;             // order in which cudaMalloc hands out addresses

  bool operator==(const GpuSpec&) const = default;
};

// How the NICs of a cluster are connected. Numbers are part of the file format: append.
enum class FabricKind : uint8_t {
  kRailFatTree = 0,  // NIC i of the nodes of a group shares a leaf with all their NICs i
  kClos = 1,         // all NICs of a node on one leaf
  kTorus = 2,        // nodes in three dimensions, a link to each neighbour
};

// How a flow picks one of several shortest paths. Append.
enum class FabricRouting : uint8_t {
  kAdaptive = 0,        // the link with fewest flows
  kEcmp = 1,            // a hash of the flow
  kDimensionOrder = 2,  // torus: along x first, then y, then z
};

// The network between nodes, for `--network flow` (replayer/network/topology.h says what is built
// from it). Counts are per plane. 0 means what the field's comment says.
struct NetworkSpec {
  FabricKind kind = FabricKind::kRailFatTree;
  FabricRouting routing = FabricRouting::kAdaptive;
  int32_t planes = 1;                 // separate networks, each with its share of every NIC
  int32_t nodes_per_leaf = 32;        // trees: nodes whose NICs share leaves
  int32_t leaf_uplinks = 32;          // trees: links of a leaf, each to a different spine
  int32_t leaves_per_pod = 0;         // trees: leaves that share spines; 0: all, two levels
  int32_t spine_uplinks = 0;          // trees with pods: links of a spine, each to a different core
  std::array<int32_t, 3> torus = {};  // torus: nodes along x, y, z; zeros: near-cubic
  int32_t nodes_per_cluster = 0;      // 0: one cluster; else slow links join the clusters
  int32_t connections = 1;            // a flow is spread over that many, each with its own path
  double uplink_bytes_per_s = 0;      // one link between switches, one direction; 0: as a NIC
  double cluster_bytes_per_s = 0;     // from one cluster to another; 0: as a NIC
  double cluster_ns = 0;              // latency of a message between clusters

  bool operator==(const NetworkSpec&) const = default;
};

struct ClusterSpec {
  std::string name;
  std::string source;
  GpuSpec gpu;
  int32_t gpus_per_node = 8;
  ParameterTable parameters;
  NetworkSpec network;

  bool operator==(const ClusterSpec&) const = default;
};

}  // namespace prism::graph
