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
  // Iterations come in turn.
  void Add(const channel::Record& record, int32_t iteration);

  // Of the complete iterations from that one on, or else of all that was added: those that
  // occurred, ascending. What a sort takes is the lower quartile of the iterations' means: what
  // only a process's first times take (imports, page faults) and a garbage collection of one
  // iteration do not count, and other programs, which make even CPU time longer, count little.
  [[nodiscard]] std::vector<graph::HostTime> times(int32_t from) const;

 private:
  struct Sum {
    uint32_t sort = 0;
    int64_t calls = 0;
    DurationNs total_ns = 0;
  };
  struct Ended {
    int32_t iteration = 0;
    std::vector<Sum> sums;  // ascending
  };
  [[nodiscard]] Ended Current() const;

  int32_t iteration_ = -1;
  std::vector<Sum> sums_;  // of this iteration, by sort
  std::vector<Ended> ended_;
};

}  // namespace prism::slicer
