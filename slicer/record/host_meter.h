// How often a rank issues ops, by sort, and what each sort costs the host, if that was measured
// while it was recorded (channel::Record::host_ns).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "graph/fragment.h"
#include "graph/program/op.h"
#include "shim/channel/messages.h"

namespace prism::slicer {

// The op kind whose host cost a record of that kind has; null for records that cost the host
// nothing. All waits count as one kind: the shim charges them equally
// (channel::Config::host_cost_ns).
std::optional<graph::OpKind> ChargedOp(channel::RecordKind kind);

class HostMeter {
 public:
  void Add(const channel::Record& record);

  // Those that occurred, ascending.
  [[nodiscard]] std::vector<graph::HostTime> times() const;

 private:
  struct Sum {
    int64_t calls = 0;
    DurationNs total_ns = 0;
  };
  std::vector<Sum> sums_;  // by sort
};

}  // namespace prism::slicer
