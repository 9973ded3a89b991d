// The cluster as numbers, each with its source: what the virtual device imitates and what the cost
// models read. Plain structs; launch/presets reads them from TOML.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graph/op.h"

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
// (launch/options/presets.h), so Value() checks.
class ParameterTable {
 public:
  ParameterTable() = default;
  explicit ParameterTable(std::vector<Parameter> parameters);  // sorts by key; keys are distinct

  [[nodiscard]] double Value(std::string_view key) const;
  [[nodiscard]] double ValueOr(std::string_view key, double fallback) const;
  [[nodiscard]] const Parameter* Find(std::string_view key) const;
  [[nodiscard]] const std::vector<Parameter>& all() const { return parameters_; }

  bool operator==(const ParameterTable&) const = default;

 private:
  std::vector<Parameter> parameters_;
};

// What the virtual device shows of itself. The values of cudaDeviceProp that kernels size their
// grids by, plus how device memory behaves.
struct GpuSpec {
  std::string name;  // as cudaGetDeviceProperties shows it
  int32_t compute_major = 0;
  int32_t compute_minor = 0;
  int32_t sm_count = 0;
  int64_t memory_bytes = 0;  // total as cudaMemGetInfo shows it
  int64_t l2_bytes = 0;
  int64_t shared_memory_per_sm = 0;           // bytes
  int64_t shared_memory_per_block_optin = 0;  // bytes
  bool segments_ascending = true;  // order in which cudaMalloc hands out addresses (MEMORY.md)

  bool operator==(const GpuSpec&) const = default;
};

struct ClusterSpec {
  std::string name;
  std::string source;
  GpuSpec gpu;
  int32_t gpus_per_node = 8;
  ParameterTable parameters;

  bool operator==(const ClusterSpec&) const = default;
};

}  // namespace prism::graph
