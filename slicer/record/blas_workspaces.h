// Which blocks of the framework's allocator are workspaces of cuBLAS. Each thread's handle
// allocates one per stream, before its first product there, and keeps it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "shim/channel/messages.h"
#include "slicer/record/definitions.h"

namespace prism::slicer {

class BlasWorkspaces {
 public:
  // A block was allocated, the `block`-th.
  void SeeBlock(uint32_t block, const channel::Record& record, const Definitions& definitions);

  // A matrix product was issued.
  void SeeProduct(const channel::Record& record);

  // By block, for `blocks` blocks. Of several blocks of that size on one thread and stream,
  // including a gradient, it does not matter which is chosen. `is_kept`: whether a block is never
  // freed.
  [[nodiscard]] std::vector<bool> Find(size_t blocks,
                                       const std::function<bool(uint32_t)>& is_kept) const;

 private:
  // A block of workspace size, allocated by a matrix product.
  struct Candidate {
    uint32_t block = 0;
    int64_t bytes = 0;
    uint16_t thread = 0;
    uint16_t stream = 0;  // of the product
  };

  std::vector<Candidate> candidates_;
  std::map<uint16_t, size_t> before_product_;  // by thread: first candidate since
};

}  // namespace prism::slicer
