// Which ranks of the job the members of a communicator are.
#pragma once

#include <cstdint>
#include <vector>

namespace prism::shim {

struct Membership {
  int32_t global_start = 0;
  int32_t global_stride = 0;   // 0: not an arithmetic progression, or not known
  std::vector<int32_t> ranks;  // explicit members if it is not one

  [[nodiscard]] bool known() const { return global_stride > 0 || !ranks.empty(); }
  // The membership of these global ranks in this order; a progression if they form one.
  static Membership Of(std::vector<int32_t> ranks);
  // Global rank of a rank in the communicator; call only if known.
  [[nodiscard]] int32_t GlobalRank(int32_t rank) const;
};

}  // namespace prism::shim
