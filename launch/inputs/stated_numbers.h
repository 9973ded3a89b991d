// What a cluster preset or file may state besides its parameters, each with unit, source and mark
// like a parameter: what it costs to run ([costs]), the memory of its hosts ([host_memory]), and
// how fast their CPUs are ([host_cpu]). Any of it may be left out.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "graph/base/enum_names.h"
#include "graph/job/cluster.h"

namespace prism::launch {

// The table of a cluster file that they are in. Keys, one each:
//
// [costs]; none of them affects a time.
//   gpu_hour_usd        USD/h    rent of one GPU with its part of the node
//   gpu_power_w         W        drawn under load by one GPU with its part of node and network
//   pue                 ratio    energy of the site over that of its machines
//   energy_usd_per_kwh  USD/kWh
//   carbon_kg_per_kwh   kg/kWh   CO2 equivalent of the grid
//   gpu_capital_usd     USD      price of one GPU with its part of node and network
//   capital_years       year     over which it is written off
//
// [host_memory]: what may be offloaded to.
//   bytes_per_gpu     byte    that a GPU's process may pin
//   link_bytes_per_s  byte/s  copies between host and device, one direction: replaces
//                             gpu.copy_bytes_per_s if stated
//   gib_hour_usd      USD/h   of one GiB, if it is priced separately
//
// [host_cpu]
//   turn_ns  ns  a turn of the loop of MeasureCpuTurn (launch/process/cpu_turn.h) on one core
enum class StatedTable : uint8_t { kCosts, kHostMemory, kHostCpu };
inline constexpr EnumNames<StatedTable, 3> kStatedTableNames = {
    {{StatedTable::kCosts, "costs"},
     {StatedTable::kHostMemory, "host_memory"},
     {StatedTable::kHostCpu, "host_cpu"}}};

struct StatedNumbers {
  std::vector<graph::Parameter> all;  // ordered by key

  [[nodiscard]] std::optional<double> Value(std::string_view key) const;

  // A value that the user states instead of the preset's.
  void State(const std::string& key, double value, const std::string& unit);

  // A new value for a key that exists.
  void Restate(const std::string& key, double value);
};

// What is wrong: an unknown key, a wrong unit, a negative value. "": nothing.
std::string CheckStated(StatedTable table, const StatedNumbers& numbers);

}  // namespace prism::launch
