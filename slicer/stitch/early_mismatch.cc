#include "slicer/stitch/early_mismatch.h"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <fmt/format.h>

namespace prism::slicer {
namespace {

using graph::EarlyCalls;
using graph::EarlySort;
using graph::Fragment;

// A call that all ranks of a group must make equally often: the group, and what is called.
struct Call {
  graph::EarlyGroup group;
  bool is_message = false;
  graph::CollectiveKind kind = graph::CollectiveKind::kAllReduce;
  int32_t root = -1;

  bool operator<(const Call& other) const {
    return std::tie(group, is_message, kind, root) <
           std::tie(other.group, other.is_message, other.kind, other.root);
  }
};

using CountsByIteration = std::map<int32_t, int64_t>;

// The iteration from which on one side stays behind until the end, with both sides.
struct Difference {
  int32_t iteration = 0;
  Rank left;
  Rank right;
  int64_t left_count = 0;
  int64_t right_count = 0;
  // One side is behind by no more than it calls per iteration: the boundary of the iteration may
  // fall between the two sides of a call.
  bool may_be_cut = false;
};

int64_t CountIn(const CountsByIteration& counts, int32_t iteration) {
  const auto found = counts.find(iteration);
  return found == counts.end() ? 0 : found->second;
}

int64_t CountUntil(const CountsByIteration& counts, int32_t last) {
  int64_t sum = 0;
  for (auto entry = counts.begin(); entry != counts.end() && entry->first <= last; ++entry) {
    sum += entry->second;
  }
  return sum;
}

using Side = std::pair<Rank, const CountsByIteration*>;

// For sides whose sums up to iteration `last` differ.
Difference DifferenceOf(const Side& left, const Side& right, int32_t last) {
  int32_t iteration = last;
  while (iteration > -1 &&
         CountUntil(*left.second, iteration - 1) != CountUntil(*right.second, iteration - 1)) {
    --iteration;
  }
  const int64_t ahead = CountUntil(*left.second, last) - CountUntil(*right.second, last);
  const int64_t in_each = std::min(CountIn(*left.second, last), CountIn(*right.second, last));
  return {.iteration = iteration,
          .left = left.first,
          .right = right.first,
          .left_count = CountIn(*left.second, iteration),
          .right_count = CountIn(*right.second, iteration),
          .may_be_cut = std::abs(ahead) <= in_each};
}

const char* Consequence(const Difference& difference) {
  return difference.may_be_cut ? "the program hangs, unless iterations begin before this call on "
                                 "one rank and after it on the other"
                               : "the program would hang";
}

std::string Calls(int64_t count) {
  return fmt::format("{} call{}", count, count == 1 ? "" : "s");
}

class EarlyComparison {
 public:
  explicit EarlyComparison(const std::map<Rank, const Fragment*>& fragments)
      : fragments_(fragments) {
    for (const auto& [rank, fragment] : fragments) {
      for (const EarlyCalls& calls : fragment->early_calls) {
        const graph::EarlyGroup& group = fragment->early_groups[calls.group];
        if (calls.sort == EarlySort::kExchange) {
          exchanges_.insert(group);
        } else {
          counts_[{group, calls.sort == EarlySort::kMessage, calls.kind, calls.root}][rank]
                 [calls.iteration] += calls.count;
        }
      }
    }
  }

  [[nodiscard]] std::optional<graph::Warning> Find() const {
    graph::Warning warning = {.code = "early_mismatch", .count = 0, .example = ""};
    int32_t first = std::numeric_limits<int32_t>::max();
    for (const auto& [call, counts] : counts_) {
      if (call.is_message && exchanges_.contains(call.group)) {
        continue;
      }
      const std::optional<Difference> difference = Compare(call, counts);
      if (!difference.has_value()) {
        continue;
      }
      ++warning.count;
      if (difference->iteration < first) {
        first = difference->iteration;
        warning.example = Describe(call, *difference);
      }
    }
    return warning.count > 0 ? std::optional(warning) : std::nullopt;
  }

 private:
  // A call may be one step earlier on one rank than on another, so sums are compared.
  [[nodiscard]] std::optional<Difference> Compare(
      const Call& call, const std::map<Rank, CountsByIteration>& counts) const {
    const CountsByIteration none;
    std::vector<Side> sides;
    int32_t last = std::numeric_limits<int32_t>::max();
    for (const Rank member : call.group.members) {
      const auto recorded = fragments_.find(member);
      if (recorded != fragments_.end()) {
        const auto own = counts.find(member);
        sides.emplace_back(member, own == counts.end() ? &none : &own->second);
        last = std::min(last, recorded->second->warmup_iterations + 1);
      }
    }
    for (size_t side = 1; side < sides.size(); ++side) {
      if (CountUntil(*sides.front().second, last) != CountUntil(*sides[side].second, last)) {
        return DifferenceOf(sides.front(), sides[side], last);
      }
    }
    return std::nullopt;
  }

  static std::string Describe(const Call& call, const Difference& difference) {
    const std::string when = difference.iteration < 0
                                 ? std::string("before its first iteration")
                                 : fmt::format("in iteration {}", difference.iteration);
    const std::string look = fmt::format("--sandbox-ranks {},{} shows the call",
                                         std::min(difference.left, difference.right).value(),
                                         std::max(difference.left, difference.right).value());
    if (call.is_message) {
      const bool sender_is_left = call.group.members.front() == difference.left;
      return fmt::format(
          "{0} rank {1} sends {3} messages to rank {2}, which receives {4}; {5}; {6}", when,
          call.group.members.front().value(), call.group.members.back().value(),
          sender_is_left ? difference.left_count : difference.right_count,
          sender_is_left ? difference.right_count : difference.left_count, Consequence(difference),
          look);
    }
    return fmt::format("{} rank {} makes {} of {} on a group of {} ranks, rank {} {}; {}; {}", when,
                       difference.left.value(), Calls(difference.left_count),
                       graph::CollectiveKindName(call.kind), call.group.members.size(),
                       difference.right.value(), difference.right_count, Consequence(difference),
                       look);
  }

  const std::map<Rank, const Fragment*>& fragments_;
  std::map<Call, std::map<Rank, CountsByIteration>> counts_;
  std::set<graph::EarlyGroup> exchanges_;
};

}  // namespace

std::optional<graph::Warning> FindEarlyMismatch(const std::map<Rank, const Fragment*>& fragments) {
  return EarlyComparison(fragments).Find();
}

}  // namespace prism::slicer
