#include "replayer/ineffective_perturbations.h"

#include <cstddef>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "graph/base/check.h"
#include "replayer/engine/replay_result.h"
#include "replayer/replay.h"

namespace prism::replayer {
namespace {

constexpr size_t kMaxTriedSingly = 16;  // more are tried by kind

// Perturbations that are left out together, by index.
using Group = std::vector<size_t>;

std::vector<Group> GroupsOf(const std::vector<Perturbation>& perturbations) {
  std::vector<Group> groups;
  std::map<PerturbationKind, size_t> group_of;
  for (size_t i = 0; i < perturbations.size(); ++i) {
    const bool alone = perturbations.size() <= kMaxTriedSingly;
    const auto [found, is_new] = group_of.try_emplace(perturbations[i].kind, groups.size());
    if (alone || is_new) {
      groups.emplace_back();
    }
    groups[alone ? i : found->second].push_back(i);
  }
  return groups;
}

ReplayOptions Without(const ReplayOptions& options, const Group& group) {
  ReplayOptions fewer = options;
  fewer.traced.clear();
  for (auto i = group.rbegin(); i != group.rend(); ++i) {
    fewer.perturbations.erase(fewer.perturbations.begin() + static_cast<std::ptrdiff_t>(*i));
  }
  return fewer;
}

// Most affect the iteration itself, which a replay without breakdown shows in half the time.
Result<bool> HasEffect(const graph::Graph& graph, ReplayOptions without, const ReplayResult& with) {
  for (const bool breakdown : {false, true}) {
    without.breakdown = breakdown;
    PRISM_ASSIGN_OR_RETURN(const ReplayResult result, Replay(graph, without));
    if (result.steady_iteration_ns() != with.steady_iteration_ns() ||
        (breakdown && result.ranks != with.ranks)) {
      return true;
    }
  }
  return false;
}

// The perturbation as requested, and where its effect may be seen.
std::string Example(const ReplayOptions& options, const Group& group, size_t ranks) {
  const Perturbation& first = options.perturbations[group.front()];
  std::string text = first.text;
  if (group.size() > 1) {
    text += fmt::format(" and {} more of its kind", group.size() - 1);
  }
  text += fmt::format(": iteration {}, which gives the numbers, is the same without it",
                      options.iterations);
  const bool is_of_first = first.kind == PerturbationKind::kLate && first.delay_ns > 0 &&
                           first.ranks.size() < ranks && options.iterations > 1;
  return text + (is_of_first ? "; --iterations 1 shows the first" : "");
}

}  // namespace

Result<std::vector<graph::Warning>> WarnOfNoEffect(const graph::Graph& graph,
                                                   const ReplayOptions& options,
                                                   const ReplayResult& with) {
  PRISM_CHECK(options.breakdown);
  graph::Warning warning = {kNoEffectCode, 0, ""};
  for (const Group& group : GroupsOf(options.perturbations)) {
    PRISM_ASSIGN_OR_RETURN(const bool has_effect, HasEffect(graph, Without(options, group), with));
    if (!has_effect) {
      warning.example =
          warning.count == 0 ? Example(options, group, graph.ranks.size()) : warning.example;
      warning.count += static_cast<int64_t>(group.size());
    }
  }
  return warning.count == 0 ? std::vector<graph::Warning>() : std::vector{std::move(warning)};
}

Result<std::vector<graph::Warning>> WarnOfNoEffect(const graph::Graph& graph,
                                                   ReplayOptions options) {
  if (options.perturbations.empty()) {
    return std::vector<graph::Warning>();
  }
  options.breakdown = true;
  options.traced.clear();
  PRISM_ASSIGN_OR_RETURN(const ReplayResult with, Replay(graph, options));
  return WarnOfNoEffect(graph, options, with);
}

}  // namespace prism::replayer
