#include "launch/inputs/stated_numbers.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

#include <fmt/format.h>

namespace prism::launch {
namespace {

struct StatedKey {
  StatedTable table;
  std::string_view key;
  std::string_view unit;
};

constexpr auto kKeys = std::to_array<StatedKey>({
    {StatedTable::kCosts, "capital_years", "year"},
    {StatedTable::kCosts, "carbon_kg_per_kwh", "kg/kWh"},
    {StatedTable::kCosts, "energy_usd_per_kwh", "USD/kWh"},
    {StatedTable::kCosts, "gpu_capital_usd", "USD"},
    {StatedTable::kCosts, "gpu_hour_usd", "USD/h"},
    {StatedTable::kCosts, "gpu_power_w", "W"},
    {StatedTable::kCosts, "pue", "ratio"},
    {StatedTable::kHostMemory, "bytes_per_gpu", "byte"},
    {StatedTable::kHostMemory, "gib_hour_usd", "USD/h"},
    {StatedTable::kHostMemory, "link_bytes_per_s", "byte/s"},
    {StatedTable::kHostCpu, "turn_ns", "ns"},
});

}  // namespace

std::optional<double> StatedNumbers::Value(std::string_view key) const {
  for (const graph::Parameter& cost : all) {
    if (cost.key == key) {
      return cost.value;
    }
  }
  return std::nullopt;
}

void StatedNumbers::State(const std::string& key, double value, const std::string& unit) {
  const auto place =
      std::lower_bound(all.begin(), all.end(), key,
                       [](const graph::Parameter& a, const std::string& b) { return a.key < b; });
  const bool known = place != all.end() && place->key == key;
  graph::Parameter& cost = known ? *place : *all.emplace(place);
  cost = {key, value, unit, "command line", graph::Mark::kMeasured};
}

void StatedNumbers::Restate(const std::string& key, double value) {
  for (const graph::Parameter& number : all) {
    if (number.key == key) {
      State(key, value, std::string(number.unit));
      return;
    }
  }
}

std::string CheckStated(StatedTable table, const StatedNumbers& numbers) {
  for (const graph::Parameter& number : numbers.all) {
    const auto known = std::ranges::find_if(
        kKeys, [&](const StatedKey& key) { return key.table == table && key.key == number.key; });
    if (known == kKeys.end()) {
      return fmt::format("[{}] has no key '{}'", NameOf(kStatedTableNames, table), number.key);
    }
    if (number.unit != known->unit) {
      return fmt::format("the unit of {} is {}, not {}", number.key, known->unit, number.unit);
    }
    if (!(number.value >= 0) || !std::isfinite(number.value)) {
      return fmt::format("{} is {}; it must be 0 or more", number.key, number.value);
    }
  }
  return "";
}

}  // namespace prism::launch
