#include "slicer/record/foreign_segments.h"

#include <algorithm>
#include <iterator>

namespace prism::slicer {

void ForeignSegments::TakeSegment(uint64_t address, int64_t bytes) {
  const auto index = static_cast<uint32_t>(segments_.size());
  segments_.push_back({.bytes = bytes});
  changes_.push_back({index, true});
  live_[address] = index;
  without_block_[address] = index;
}

void ForeignSegments::GiveSegments(uint64_t address, int64_t bytes) {
  const uint64_t end = address + static_cast<uint64_t>(bytes);
  const auto first = live_.lower_bound(address);
  const auto last = live_.lower_bound(end);
  for (auto segment = first; segment != last; ++segment) {
    changes_.push_back({segment->second, false});
  }
  live_.erase(first, last);
  without_block_.erase(without_block_.lower_bound(address), without_block_.lower_bound(end));
}

void ForeignSegments::SeeBlock(uint64_t address, int64_t bytes) {
  const uint64_t end = address + std::max<uint64_t>(static_cast<uint64_t>(bytes), 1);
  // The first segment that extends beyond the block's beginning, up to the block's end.
  auto first = without_block_.upper_bound(address);
  if (first != without_block_.begin()) {
    const auto before = std::prev(first);
    const auto reach = before->first + static_cast<uint64_t>(segments_[before->second].bytes);
    first = reach > address ? before : first;
  }
  const auto last = without_block_.lower_bound(end);
  for (auto segment = first; segment != last; ++segment) {
    segments_[segment->second].is_foreign = false;
  }
  without_block_.erase(first, last);
}

int64_t ForeignSegments::Peak() const {
  int64_t sum = 0;
  int64_t peak = 0;
  for (const Change& change : changes_) {
    const Segment& segment = segments_[change.segment];
    if (segment.is_foreign) {
      sum += change.taken ? segment.bytes : -segment.bytes;
      peak = std::max(peak, sum);
    }
  }
  return peak;
}

}  // namespace prism::slicer
