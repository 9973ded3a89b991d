// Intervals never touch: Add grows the new one over every interval that it overlaps or borders, so
// a buffer that is written piece by piece stays one entry, and each entry is absorbed at most once.
// Only the interval before the start of a range can reach into it from the left; every search
// begins there.
#include "shim/virtual_device/written_bytes.h"

#include <algorithm>
#include <iterator>

namespace prism::shim {

void WrittenBytes::Add(uintptr_t start, size_t bytes) {
  if (bytes == 0) {
    return;
  }
  uintptr_t end = start + bytes;
  auto at = intervals_.upper_bound(start);
  if (at != intervals_.begin()) {
    const auto previous = std::prev(at);
    if (previous->second >= end) {
      return;
    }
    if (previous->second >= start) {
      start = previous->first;
      at = previous;
    }
  }
  while (at != intervals_.end() && at->first <= end) {
    end = std::max(end, at->second);
    at = intervals_.erase(at);
  }
  intervals_.emplace_hint(at, start, end);
}

bool WrittenBytes::Remove(uintptr_t start, size_t bytes) {
  const uintptr_t end = start + bytes;
  auto at = intervals_.upper_bound(start);
  if (at != intervals_.begin()) {
    --at;
  }
  bool removed = false;
  while (at != intervals_.end() && at->first < end) {
    const auto [first, last] = *at;
    if (last <= start) {
      ++at;
      continue;
    }
    removed = true;
    at = intervals_.erase(at);
    if (first < start) {
      intervals_.emplace(first, start);
    }
    if (last > end) {
      intervals_.emplace(end, last);
    }
  }
  return removed;
}

std::vector<std::pair<uintptr_t, size_t>> WrittenBytes::Parts(uintptr_t start, size_t bytes) const {
  std::vector<std::pair<uintptr_t, size_t>> parts;
  const uintptr_t end = start + bytes;
  auto at = intervals_.upper_bound(start);
  if (at != intervals_.begin()) {
    --at;
  }
  for (; at != intervals_.end() && at->first < end; ++at) {
    const uintptr_t first = std::max(at->first, start);
    const uintptr_t last = std::min(at->second, end);
    if (first < last) {
      parts.emplace_back(first, last - first);
    }
  }
  return parts;
}

size_t WrittenBytes::Count(uintptr_t start, size_t bytes) const {
  size_t valid = 0;
  for (const auto& [first, length] : Parts(start, bytes)) {
    valid += length;
  }
  return valid;
}

}  // namespace prism::shim
