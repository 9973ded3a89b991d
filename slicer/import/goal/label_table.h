// Labels of one rank → tasks. Labels are views into the file. Cleared in constant time, so that
// clearing costs nothing for a file of many short ranks.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "graph/base/fnv.h"

namespace prism::slicer {

class LabelTable {
 public:
  static constexpr uint32_t kNone = 0xFFFFFFFFU;

  void Clear() {
    ++epoch_;
    size_ = 0;
  }

  // The task of that label; kNone when there is none.
  [[nodiscard]] uint32_t Find(std::string_view label) const {
    return slots_.empty() ? kNone : slots_[SlotOf(label)].task_in(epoch_);
  }

  // False when the label already exists.
  bool Insert(std::string_view label, uint32_t task) {
    if ((size_ + 1) * 2 > slots_.size()) {
      Grow();
    }
    Slot& slot = slots_[SlotOf(label)];
    if (slot.epoch == epoch_) {
      return false;
    }
    slot = {label, epoch_, task};
    ++size_;
    return true;
  }

 private:
  struct Slot {
    std::string_view label;
    uint32_t epoch = 0;
    uint32_t task = 0;

    [[nodiscard]] uint32_t task_in(uint32_t now) const { return epoch == now ? task : kNone; }
  };

  static uint64_t HashOf(std::string_view label) {
    const uint64_t hash = FnvHash(label);  // labels are short
    return hash ^ (hash >> 32U);
  }

  // Where the label is, else where it would go.
  [[nodiscard]] size_t SlotOf(std::string_view label) const {
    const size_t mask = slots_.size() - 1;
    size_t slot = HashOf(label) & mask;
    while (slots_[slot].epoch == epoch_ && slots_[slot].label != label) {
      slot = (slot + 1) & mask;
    }
    return slot;
  }

  void Grow() {
    std::vector<Slot> old(slots_.empty() ? 64 : slots_.size() * 2);
    old.swap(slots_);
    for (const Slot& slot : old) {
      if (slot.epoch == epoch_) {
        slots_[SlotOf(slot.label)] = slot;
      }
    }
  }

  std::vector<Slot> slots_;  // a power of two of them
  uint32_t epoch_ = 1;
  size_t size_ = 0;
};

}  // namespace prism::slicer
