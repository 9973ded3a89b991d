#include "replayer/network/levels.h"

#include <algorithm>

#include "graph/base/divide.h"

namespace prism::replayer {

void Levels::Grow(uint32_t count) {
  const size_t blocks = DivideUp<size_t>(std::max<size_t>(count, 2 * levels_.size()), kBlock);
  levels_.resize(blocks * kBlock, kNone);
  lowest_.resize(blocks, {kUnknown, 0});
}

Levels::Entry Levels::LowestOfBlock(uint32_t first) const {
  Entry lowest = {kNone, first};
  const uint32_t end = std::min(first + kBlock, count_);
  for (uint32_t i = first; i < end; ++i) {
    const double level = levels_[i];
    lowest.index = level < lowest.level ? i : lowest.index;
    lowest.level = level < lowest.level ? level : lowest.level;
  }
  return lowest;
}

Levels::Entry Levels::Lowest() {
  Entry lowest;
  for (uint32_t first = 0; first < count_; first += kBlock) {
    Entry& of_block = lowest_[first / kBlock];
    if (of_block.level == kUnknown) {
      of_block = LowestOfBlock(first);
    }
    if (of_block.level < lowest.level) {
      lowest = of_block;
    }
  }
  return lowest;
}

}  // namespace prism::replayer
