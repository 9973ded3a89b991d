#include "experiments/published/search_difference.h"

#include <algorithm>

#include <fmt/format.h>

#include "launch/inputs/presets.h"
#include "launch/plan/style_difference.h"

namespace prism::launch {
namespace {

// Whether a shipped cluster consists of these two.
bool IsShipped(const RowCluster& cluster) {
  const auto quoted = [](const std::string& name) { return fmt::format("\"{}\"", name); };
  return std::ranges::any_of(EmbeddedPresets(), [&](const EmbeddedPreset& preset) {
    return preset.kind == PresetKind::kCluster &&
           preset.text.find(quoted(cluster.gpu)) != std::string_view::npos &&
           preset.text.find(quoted(cluster.network)) != std::string_view::npos;
  });
}

}  // namespace

std::vector<std::string> DifferencesFromSearch(const Framework& framework, const RowPlan& plan) {
  std::vector<std::string> differences;
  if (!framework.runs_plans) {
    return {fmt::format("framework {}, for which it does not plan", framework.name)};
  }
  if (!IsShipped(plan.cluster)) {
    differences.push_back(fmt::format("{} with {}, which no cluster preset has", plan.cluster.gpu,
                                      plan.cluster.network));
  }
  const graph::TrainingStyle usual = StyleOfFramework(framework, plan.style.precision, plan.job);
  const std::vector<std::string> words = StyleDifferences(plan.style, usual);
  differences.insert(differences.end(), words.begin(), words.end());
  return differences;
}

}  // namespace prism::launch
