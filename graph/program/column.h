// Columns of a program that take less room than a vector of their values.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <vector>

namespace prism::graph {

// A column in which few rows hold anything but kNone: one bit per row, and the values of the rows
// that have one. Rows can only be appended.
template <typename T, T kNone>
class SparseColumn {
 public:
  [[nodiscard]] size_t size() const { return size_; }

  [[nodiscard]] T operator[](size_t row) const {
    const Block& block = blocks_[row / kRows];
    const uint64_t bit = uint64_t{1} << (row % kRows);
    if ((block.present & bit) == 0) {
      return kNone;
    }
    return values_[block.before + static_cast<uint32_t>(std::popcount(block.present & (bit - 1)))];
  }

  void push_back(T value) {
    const size_t row = size_++;
    if (row % kRows == 0) {
      blocks_.push_back({.present = 0, .before = static_cast<uint32_t>(values_.size())});
    }
    if (value != kNone) {
      blocks_.back().present |= uint64_t{1} << (row % kRows);
      values_.push_back(value);
    }
  }

  void append(size_t times, T value) {
    if (value != kNone) {
      for (size_t i = 0; i < times; ++i) {
        push_back(value);
      }
      return;
    }
    size_ += times;
    while (blocks_.size() * kRows < size_) {
      blocks_.push_back({.present = 0, .before = static_cast<uint32_t>(values_.size())});
    }
  }

  void shrink_to_fit() {
    blocks_.shrink_to_fit();
    values_.shrink_to_fit();
  }

  bool operator==(const SparseColumn&) const = default;

 private:
  static constexpr size_t kRows = 64;
  struct Block {
    uint64_t present = 0;  // bits of the rows that have a value
    uint32_t before = 0;   // values in the blocks before

    bool operator==(const Block&) const = default;
  };

  std::vector<Block> blocks_;
  std::vector<T> values_;
  size_t size_ = 0;
};

// A column of numbers, few of which need more than 32 bits.
class NumberColumn {
 public:
  [[nodiscard]] size_t size() const { return narrow_.size(); }

  [[nodiscard]] int64_t operator[](size_t row) const {
    const uint32_t narrow = narrow_[row];
    return narrow != kWide ? int64_t{narrow} : wide_.at(row);
  }

  void push_back(int64_t value) {
    narrow_.push_back(0);
    Set(narrow_.size() - 1, value);
  }

  void append(size_t times, int64_t value) {
    const size_t first = narrow_.size();
    narrow_.resize(first + times);
    for (size_t row = first; value != 0 && row < narrow_.size(); ++row) {
      Set(row, value);
    }
  }

  void Set(size_t row, int64_t value) {
    if (narrow_[row] == kWide) {
      wide_.erase(row);
    }
    if (value >= 0 && value < int64_t{kWide}) {
      narrow_[row] = static_cast<uint32_t>(value);
    } else {
      narrow_[row] = kWide;
      wide_[row] = value;
    }
  }

  void shrink_to_fit() { narrow_.shrink_to_fit(); }

  bool operator==(const NumberColumn&) const = default;

 private:
  static constexpr uint32_t kWide = std::numeric_limits<uint32_t>::max();

  std::vector<uint32_t> narrow_;    // kWide: in wide_
  std::map<size_t, int64_t> wide_;  // by row
};

}  // namespace prism::graph
