// The numbers that the cost models need about a cluster: one table of keys, units and meanings. A
// cluster preset (launch/presets/*.toml) gives every key a value, a source and a mark; a preset
// that lacks a key is refused when it is read, so models can call ParameterTable::Value.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/base/time.h"
#include "graph/job/cluster.h"
#include "graph/program/op.h"

namespace prism::replayer {

struct ParameterKey {
  std::string_view key;
  std::string_view unit;
  std::string_view meaning;
};

// Every key, ordered.
std::span<const ParameterKey> ParameterKeys();

// The parameter with the host's cost of issuing an op of that kind; "" if it costs nothing.
std::string_view HostCostKey(graph::OpKind kind);

// What issuing an op costs the host thread, by graph::OpKind; host gaps and markers cost nothing.
std::vector<DurationNs> HostCosts(const graph::ParameterTable& table);

// Why `table` cannot be used, one line per fault: missing keys, keys that no model reads, units
// other than ours, values outside the range of their unit. Models divide by rates and convert times
// to integers, so no cost can be computed from a faulty table.
std::vector<std::string> CheckParameters(const graph::ParameterTable& table);

}  // namespace prism::replayer
