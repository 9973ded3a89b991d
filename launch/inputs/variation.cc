#include "launch/inputs/variation.h"

#include <cmath>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "graph/base/parse_number.h"
#include "graph/base/split.h"
#include "launch/inputs/options.h"

namespace prism::launch {
namespace {

constexpr int kMaxSteps = 1000;

}  // namespace

double Variation::ValueAt(int step) const {
  return from + (to - from) * step / (steps - 1);
}

Result<Variation> ParseVariation(const std::string& text) {
  const std::vector<std::string_view> parts = SplitAt(text, ':');
  Variation variation;
  const bool read = parts.size() == 4 && ParseNumber(parts[1], &variation.from) &&
                    ParseNumber(parts[2], &variation.to) && ParseNumber(parts[3], &variation.steps);
  if (!read || !(variation.from > 0) || !(variation.to > 0) || variation.steps < 2 ||
      variation.steps > kMaxSteps) {
    return InvalidArgument(
        fmt::format("--vary: '{}' is not KEY:FROM:TO:STEPS with values above 0 and 2 to {} steps",
                    text, kMaxSteps));
  }
  variation.key = parts[0];
  return variation;
}

Result<graph::ClusterSpec> VariedCluster(const graph::ClusterSpec& cluster,
                                         const std::string& key,
                                         double value) {
  graph::ClusterSpec varied = cluster;
  if (key == "gpu.memory_bytes") {
    varied.gpu.memory_bytes = std::llround(value);
    return varied;
  }
  if (varied.parameters.Find(key) == nullptr) {
    std::vector<std::string> known = {"gpu.memory_bytes"};
    for (const graph::Parameter& parameter : cluster.parameters.all()) {
      known.push_back(parameter.key);
    }
    const std::string near = NearestName(key, known);
    return InvalidArgument(fmt::format("--vary: {} has no parameter '{}'{}", cluster.name, key,
                                       near.empty() ? "; prism presets NAME lists them"
                                                    : fmt::format("; did you mean {}?", near)));
  }
  varied.parameters.SetValue(key, value);
  return varied;
}

}  // namespace prism::launch
