#include "launch/inputs/stated_numbers.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <string_view>

#include <fmt/format.h>

namespace prism::launch {
namespace {

struct StatedKey {
  std::string_view key;
  std::string_view unit;
};

constexpr auto kCostKeys = std::to_array<StatedKey>({
    {"capital_years", "year"},
    {"carbon_kg_per_kwh", "kg/kWh"},
    {"energy_usd_per_kwh", "USD/kWh"},
    {"gpu_capital_usd", "USD"},
    {"gpu_hour_usd", "USD/h"},
    {"gpu_power_w", "W"},
    {"pue", "ratio"},
});

constexpr auto kHostMemoryKeys = std::to_array<StatedKey>({
    {"bytes_per_gpu", "byte"},
    {"gib_hour_usd", "USD/h"},
    {"link_bytes_per_s", "byte/s"},
});

constexpr auto kHostCpuKeys = std::to_array<StatedKey>({{"turn_ns", "ns"}});

std::string Check(const StatedNumbers& numbers,
                  const char* table,
                  std::span<const StatedKey> keys) {
  for (const graph::Parameter& number : numbers.all) {
    const auto known = std::find_if(keys.begin(), keys.end(),
                                    [&](const StatedKey& key) { return key.key == number.key; });
    if (known == keys.end()) {
      return fmt::format("[{}] has no key '{}'", table, number.key);
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

std::string CheckSiteCosts(const SiteCosts& costs) {
  return Check(costs, "costs", kCostKeys);
}

std::string CheckHostMemory(const HostMemory& memory) {
  return Check(memory, "host_memory", kHostMemoryKeys);
}

std::string CheckHostCpu(const HostCpu& cpu) {
  return Check(cpu, "host_cpu", kHostCpuKeys);
}

}  // namespace prism::launch
