// A group of regularly placed ranks is one of many that its digits cut the job into: the groups of
// all other ranks follow by arithmetic, also in a larger job. Digits are read off the distances
// between the ranks; whether they are right is decided by making the group that they would give the
// first rank and comparing. An axis that reaches the end of the job (stride × size = world) is the
// one that grows with the job, so its size is left open.
#include "slicer/import/kineto/process_axis.h"

#include <algorithm>

namespace prism::slicer {
namespace {

uint32_t SizeIn(const std::pair<uint32_t, uint32_t>& digit, uint32_t ranks) {
  return digit.second == 0 ? ranks / digit.first : digit.second;
}

// The distances of `ranks`, which are more than one, as if they were regular.
std::vector<std::pair<uint32_t, uint32_t>> DigitsOf(std::vector<uint32_t> ranks) {
  std::vector<std::pair<uint32_t, uint32_t>> digits;
  while (ranks.size() > 1) {
    const uint32_t stride = ranks[1] - ranks[0];
    size_t run = 2;
    while (run < ranks.size() && ranks[run] - ranks[run - 1] == stride) {
      ++run;
    }
    digits.emplace_back(stride, static_cast<uint32_t>(run));
    std::vector<uint32_t> leaders;
    for (size_t i = 0; i < ranks.size(); i += run) {
      leaders.push_back(ranks[i]);
    }
    ranks = std::move(leaders);
  }
  return digits;
}

// Null: the digits do not divide the job, or the one before does not divide the next.
std::optional<std::vector<uint32_t>> RegularGroup(const ProcessAxis& axis,
                                                  uint32_t rank,
                                                  uint32_t ranks) {
  std::vector<uint32_t> group = {rank};
  uint64_t inner = 1;
  for (const auto& digit : axis.digits) {
    const uint32_t size = SizeIn(digit, ranks);
    if (size == 0 || digit.first % inner != 0) {
      return std::nullopt;
    }
    inner = uint64_t{digit.first} * size;
    std::vector<uint32_t> wider;
    for (uint32_t i = 0; i < size; ++i) {
      for (const uint32_t member : group) {
        wider.push_back(member - member / digit.first % size * digit.first + i * digit.first);
      }
    }
    group = std::move(wider);
  }
  return ranks % inner == 0 ? std::optional(std::move(group)) : std::nullopt;
}

// Each `world` ranks of a larger job have the same groups.
std::optional<std::vector<uint32_t>> IrregularGroup(const ProcessAxis& axis,
                                                    uint32_t rank,
                                                    uint32_t ranks,
                                                    uint32_t world) {
  if (ranks % world != 0) {
    return std::nullopt;
  }
  const uint32_t first = rank - rank % world;
  std::vector<uint32_t> group = axis.members;
  if (!std::ranges::binary_search(group, rank % world)) {
    std::vector<uint32_t> others;
    for (uint32_t other = 0; other < world; ++other) {
      if (!std::ranges::binary_search(axis.members, other)) {
        others.push_back(other);
      }
    }
    const auto place = std::ranges::lower_bound(others, rank % world) - others.begin();
    const auto begin = others.begin() + place - place % std::ssize(axis.members);
    const auto length = std::min(std::ssize(axis.members), others.end() - begin);
    group.assign(begin, begin + length);
  }
  for (uint32_t& member : group) {
    member += first;
  }
  return group;
}

}  // namespace

std::optional<ProcessAxis> AxisOf(const std::string& name,
                                  const std::vector<uint32_t>& ranks,
                                  uint32_t world) {
  ProcessAxis axis;
  axis.name = name;
  axis.digits = {{1, static_cast<uint32_t>(ranks.size())}};
  if (!ranks.empty() && ranks.back() >= world) {
    return std::nullopt;
  }
  if (ranks.size() < 2) {
    return axis;
  }
  axis.digits = DigitsOf(ranks);
  if (RegularGroup(axis, ranks.front(), world) != ranks) {
    axis.digits.clear();
    axis.members = ranks;
  } else if (uint64_t{axis.digits.back().first} * axis.digits.back().second == world) {
    axis.digits.back().second = 0;
  }
  return axis;
}

std::optional<std::vector<uint32_t>> GroupOn(const ProcessAxis& axis,
                                             Rank rank,
                                             uint32_t ranks,
                                             uint32_t world) {
  return axis.members.empty() ? RegularGroup(axis, rank.value(), ranks)
                              : IrregularGroup(axis, rank.value(), ranks, world);
}

}  // namespace prism::slicer
