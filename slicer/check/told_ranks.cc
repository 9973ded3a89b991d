#include "slicer/check/told_ranks.h"

#include <algorithm>
#include <set>

namespace prism::slicer {
namespace {

bool Contains(const std::vector<Rank>& members, Rank rank) {
  return std::ranges::find(members, rank) != members.end();
}

}  // namespace

WantedRanks RanksToldBy(const RankCalls& first, const std::vector<Rank>& known) {
  WantedRanks wanted;
  std::set<Rank> usual(known.begin(), known.end());  // those that others are compared with
  std::set<Rank> told(known.begin(), known.end());
  const auto is_full = [&] { return wanted.told.size() + wanted.others.size() >= kMostToldRanks; };
  const auto add = [&](Rank rank) {
    if (is_full() || !told.insert(rank).second) {
      return;
    }
    wanted.told.push_back(rank);
    for (const CalledGroup& group : first.groups) {
      const std::vector<Rank>& members = group.members;
      const auto at = std::ranges::find(members, rank);
      if (at == members.end() || members.size() < 2 || is_full() ||
          std::ranges::any_of(members, [&](Rank r) { return r != rank && usual.contains(r); })) {
        continue;
      }
      const Rank next = at + 1 == members.end() ? members.front() : *(at + 1);
      if (told.insert(next).second) {
        usual.insert(next);
        wanted.others.push_back(next);
      }
    }
  };
  for (const ToldRank& each : first.told_ranks) {
    for (const CalledGroup& group : first.groups) {
      const bool is_meant =
          each.is_place ? Contains(group.members, first.rank) : &group == &first.groups.front();
      if (is_meant && each.number >= 0 &&
          each.number < static_cast<int64_t>(group.members.size())) {
        add(group.members[static_cast<size_t>(each.number)]);
      }
    }
  }
  return wanted;
}

}  // namespace prism::slicer
