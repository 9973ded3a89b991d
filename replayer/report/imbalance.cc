#include "replayer/report/imbalance.h"

#include <algorithm>
#include <map>
#include <span>

namespace prism::replayer {
namespace {

bool IsOfOneStage(const graph::Graph& graph, std::span<const uint32_t> members) {
  return graph.job.parallel.pp == 1 || std::ranges::all_of(members, [&](uint32_t member) {
           return graph.role_of(Rank(member)).stage == graph.role_of(Rank(members[0])).stage;
         });
}

// The largest is beyond all others, which are within 10 % of each other.
bool IsAlone(std::vector<DurationNs> compute) {
  constexpr double kAlike = 1.1;
  std::ranges::sort(compute);
  const auto largest = static_cast<double>(compute.back());
  const auto second = static_cast<double>(compute[compute.size() - 2]);
  return largest > kAlike * second && second <= kAlike * static_cast<double>(compute.front());
}

Imbalance Of(std::span<const uint32_t> members, const ReplayResult& result) {
  Imbalance found;
  std::vector<DurationNs> compute;
  DurationNs sum = 0;
  for (const uint32_t member : members) {
    compute.push_back(result.ranks[member].compute_ns);
    sum += compute.back();
    if (compute.back() > found.largest_ns) {
      found.largest_ns = compute.back();
      found.slowest = Rank(member);
    }
  }
  found.mean_ns = sum / static_cast<DurationNs>(members.size());
  found.ratio = found.mean_ns > 0
                    ? static_cast<double>(found.largest_ns) * static_cast<double>(members.size()) /
                          static_cast<double>(sum)
                    : 1;
  found.is_straggler = IsAlone(std::move(compute));
  return found;
}

}  // namespace

std::vector<Imbalance> FindImbalance(const graph::Graph& graph, const ReplayResult& result) {
  constexpr double kEven = 1.01;
  std::map<std::string, Imbalance> worst;
  for (uint32_t comm = 0; comm < graph.communicators.size(); ++comm) {
    const auto members = graph.communicators.members_of(CommId(comm));
    if (members.size() < 2 || !IsOfOneStage(graph, members)) {
      continue;
    }
    const Imbalance found = Of(members, result);
    Imbalance& entry = worst[graph.strings[graph.communicators.name[comm]]];
    entry = found.ratio > entry.ratio ? found : entry;
  }
  std::vector<Imbalance> list;
  for (auto& [name, entry] : worst) {
    if (entry.ratio >= kEven) {
      entry.communicator = name;
      list.push_back(entry);
    }
  }
  std::ranges::stable_sort(list, [](const auto& a, const auto& b) { return a.ratio > b.ratio; });
  return list;
}

}  // namespace prism::replayer
