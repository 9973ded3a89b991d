// Levels that change one at a time, with access to the lowest of them.
//
// They are kept in blocks; the lowest of each block is stored, and searched for again when one of
// its levels changed. Nothing here branches on a level: which is lowest cannot be predicted, and a
// mispredicted branch takes longer than comparing a block.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

namespace prism::replayer {

class Levels {
 public:
  static constexpr double kNone = std::numeric_limits<double>::infinity();

  struct Entry {
    double level = kNone;
    uint32_t index = 0;
  };

  // Sets how many there are. New ones must be set before use.
  void Resize(uint32_t count) { count_ = count; }
  void Reserve(uint32_t count) {
    if (count > levels_.size()) {
      Grow(count);
    }
  }
  [[nodiscard]] uint32_t size() const { return count_; }

  // At least 0, or kNone.
  void Set(uint32_t index, double level) {
    levels_[index] = level;
    lowest_[index / kBlock].level = kUnknown;
  }

  // The first of the lowest; kNone where there is none.
  Entry Lowest();

 private:
  static constexpr uint32_t kBlock = 64;
  static constexpr double kUnknown = -1;

  void Grow(uint32_t count);
  [[nodiscard]] Entry LowestOfBlock(uint32_t first) const;

  uint32_t count_ = 0;
  std::vector<double> levels_;
  std::vector<Entry> lowest_;  // by block
};

}  // namespace prism::replayer
