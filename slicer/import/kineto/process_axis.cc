// A group of regularly spaced ranks is one of many that an axis (stride, size) cuts the job into:
// the groups of all other ranks follow by arithmetic, also in a larger job. Whether the spacing is
// regular is decided by making the group that the axis would give the first rank and comparing. An
// axis that reaches the end of the job (stride × size = world) is the one that grows with the job,
// so its size is left open.
#include "slicer/import/kineto/process_axis.h"

namespace prism::slicer {
namespace {

uint32_t SizeIn(const ProcessAxis& axis, uint32_t ranks) {
  return axis.size == 0 ? ranks / axis.stride : axis.size;
}

}  // namespace

std::optional<ProcessAxis> AxisOf(const std::string& name,
                                  const std::vector<uint32_t>& ranks,
                                  uint32_t world) {
  ProcessAxis axis;
  axis.name = name;
  if (!ranks.empty() && ranks.back() >= world) {
    return std::nullopt;
  }
  if (ranks.size() < 2) {
    axis.size = static_cast<uint32_t>(ranks.size());
    return axis;
  }
  axis.stride = ranks[1] - ranks[0];
  axis.size = static_cast<uint32_t>(ranks.size());
  const std::optional<std::vector<uint32_t>> regular = GroupOn(axis, Rank(ranks.front()), world);
  if (!regular || *regular != ranks) {
    return std::nullopt;
  }
  if (uint64_t{axis.stride} * axis.size == world) {
    axis.size = 0;
  }
  return axis;
}

std::optional<uint32_t> LeaderOn(const ProcessAxis& axis, Rank rank, uint32_t ranks) {
  const uint32_t size = SizeIn(axis, ranks);
  if (size == 0 || ranks % (uint64_t{axis.stride} * size) != 0) {
    return std::nullopt;
  }
  return rank.value() - rank.value() / axis.stride % size * axis.stride;
}

std::optional<std::vector<uint32_t>> GroupOn(const ProcessAxis& axis, Rank rank, uint32_t ranks) {
  const std::optional<uint32_t> leader = LeaderOn(axis, rank, ranks);
  if (!leader) {
    return std::nullopt;
  }
  std::vector<uint32_t> group(SizeIn(axis, ranks));
  for (uint32_t i = 0; i < group.size(); ++i) {
    group[i] = *leader + i * axis.stride;
  }
  return group;
}

}  // namespace prism::slicer
