// What a cluster costs to run: the [costs] table of a cluster preset or file, each with unit,
// source and mark like a parameter. None of it moves a time, so a cluster may leave any of it out.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "graph/cluster.h"

namespace prism::launch {

// Keys, one each:
//   gpu_hour_usd        USD/h    rent of one GPU with its part of the node
//   gpu_power_w         W        drawn under load by one GPU with its part of node and network
//   pue                 ratio    energy of the site over that of its machines
//   energy_usd_per_kwh  USD/kWh
//   carbon_kg_per_kwh   kg/kWh   CO2 equivalent of the grid
//   gpu_capital_usd     USD      price of one GPU with its part of node and network
//   capital_years       year     over which it is written off
struct SiteCosts {
  std::vector<graph::Parameter> all;  // ordered by key

  [[nodiscard]] std::optional<double> Value(std::string_view key) const;

  // A value that the user states in place of the preset's.
  void State(const std::string& key, double value, const std::string& unit);
};

// What is wrong with `costs`: an unknown key, another unit, a negative value. "" nothing.
std::string CheckSiteCosts(const SiteCosts& costs);

}  // namespace prism::launch
