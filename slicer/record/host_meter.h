// The host's cost of issuing an op, by kind, as measured while a rank was recorded
// (channel::Record::host_ns).
#pragma once

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

  // By graph::OpKind; empty if nothing was measured.
  [[nodiscard]] const std::vector<graph::HostTime>& times() const { return times_; }

 private:
  std::vector<graph::HostTime> times_;
};

}  // namespace prism::slicer
