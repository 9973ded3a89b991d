// The numbers that the cost models need of a cluster: one table of keys, units and meanings. A
// cluster preset (launch/presets/*.toml) gives every key a value, a source and a mark; a preset
// with a key missing is refused when it is read, so models call ParameterTable::Value.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/cluster.h"
#include "graph/op.h"

namespace prism::replayer {

struct ParameterKey {
  std::string_view key;
  std::string_view unit;
  std::string_view meaning;
};

// Every key, ordered.
std::span<const ParameterKey> ParameterKeys();

// The parameter that issuing an op of that kind costs the host; "" where it costs nothing.
std::string_view HostCostKey(graph::OpKind kind);

// What keeps `table` from being used, one line each: keys that it lacks, keys that no model reads,
// units other than ours, values outside of what their unit allows. Models divide by rates and
// convert times to integers, so no cost can be computed from a table with a fault.
std::vector<std::string> CheckParameters(const graph::ParameterTable& table);

}  // namespace prism::replayer
