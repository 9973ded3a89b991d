#include "launch/options/site_costs.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>
#include <utility>

#include <fmt/format.h>

namespace prism::launch {
namespace {

struct CostKey {
  std::string_view key;
  std::string_view unit;
};

constexpr auto kCostKeys = std::to_array<CostKey>({
    {"capital_years", "year"},
    {"carbon_kg_per_kwh", "kg/kWh"},
    {"energy_usd_per_kwh", "USD/kWh"},
    {"gpu_capital_usd", "USD"},
    {"gpu_hour_usd", "USD/h"},
    {"gpu_power_w", "W"},
    {"pue", "ratio"},
});

}  // namespace

std::optional<double> SiteCosts::Value(std::string_view key) const {
  for (const graph::Parameter& cost : all) {
    if (cost.key == key) {
      return cost.value;
    }
  }
  return std::nullopt;
}

void SiteCosts::State(const std::string& key, double value, const std::string& unit) {
  const auto place =
      std::lower_bound(all.begin(), all.end(), key,
                       [](const graph::Parameter& a, const std::string& b) { return a.key < b; });
  const bool known = place != all.end() && place->key == key;
  graph::Parameter& cost = known ? *place : *all.emplace(place);
  cost = {key, value, unit, "command line", graph::Mark::kMeasured};
}

std::string CheckSiteCosts(const SiteCosts& costs) {
  for (const graph::Parameter& cost : costs.all) {
    const auto* known = std::find_if(kCostKeys.begin(), kCostKeys.end(),
                                     [&](const CostKey& key) { return key.key == cost.key; });
    if (known == kCostKeys.end()) {
      return fmt::format("[costs] has no '{}'", cost.key);
    }
    if (cost.unit != known->unit) {
      return fmt::format("the unit of {} is {}, not {}", cost.key, known->unit, cost.unit);
    }
    if (!(cost.value >= 0) || !std::isfinite(cost.value)) {
      return fmt::format("{} is {}; a cost is a number from 0 on", cost.key, cost.value);
    }
  }
  return "";
}

}  // namespace prism::launch
