// What issuing an op costs the host, by kind, as measured while a rank was recorded
// (channel::Record::host_ns).
#pragma once

#include <vector>

#include "graph/fragment.h"
#include "shim/channel/messages.h"

namespace prism::slicer {

class HostMeter {
 public:
  void Add(const channel::Record& record);

  // By graph::OpKind; empty where nothing was measured.
  [[nodiscard]] const std::vector<graph::HostTime>& times() const { return times_; }

 private:
  std::vector<graph::HostTime> times_;
};

}  // namespace prism::slicer
