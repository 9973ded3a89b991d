#include "shim/nccl/membership.h"

#include <utility>

namespace prism::shim {

Membership Membership::Of(std::vector<int32_t> ranks) {
  Membership members;
  if (ranks.empty()) {
    return members;
  }
  const int32_t start = ranks.front();
  const int32_t stride = ranks.size() > 1 ? ranks[1] - start : 1;
  bool is_progression = stride > 0;
  for (size_t i = 0; i < ranks.size(); ++i) {
    is_progression = is_progression && ranks[i] == start + static_cast<int32_t>(i) * stride;
  }
  if (is_progression) {
    members.global_start = start;
    members.global_stride = stride;
  } else {
    members.ranks = std::move(ranks);
  }
  return members;
}

int32_t Membership::GlobalRank(int32_t rank) const {
  return global_stride > 0 ? global_start + rank * global_stride : ranks[static_cast<size_t>(rank)];
}

}  // namespace prism::shim
