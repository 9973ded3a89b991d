// One range of time for each lane of a class.
#pragma once

#include <cstddef>
#include <vector>

#include "graph/base/time.h"

namespace prism::replayer {

// A range for each lane; empty where its end is not after its begin.
class LaneRanges {
 public:
  void Resize(size_t lanes) { times_.resize(2 * lanes); }

  [[nodiscard]] size_t lanes() const { return times_.size() / 2; }
  [[nodiscard]] TimeNs* begin() { return times_.data(); }
  [[nodiscard]] TimeNs* end() { return times_.data() + lanes(); }
  [[nodiscard]] const TimeNs* begin() const { return times_.data(); }
  [[nodiscard]] const TimeNs* end() const { return times_.data() + lanes(); }

 private:
  std::vector<TimeNs> times_;  // begins, then ends
};

}  // namespace prism::replayer
