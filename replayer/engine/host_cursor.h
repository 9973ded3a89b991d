// The host thread of a class of ranks: how far it has issued its ops, and when. It issues op after
// op, each at its host cost, until a wait, whose end its owner reads from streams and events, or
// until the limit that a gate or a kill sets.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "replayer/engine/lane_stream.h"
#include "replayer/engine/op_traces.h"
#include "replayer/engine/partition.h"
#include "replayer/engine/role_plan.h"

namespace prism::replayer {

class HostCursor {
 public:
  // `plan`, `rank_class`: outlive the cursor.
  HostCursor(const RolePlan& plan, const RankClass& rank_class, int32_t iterations);

  [[nodiscard]] OpPosition end() const { return end_; }        // of all iterations
  [[nodiscard]] OpPosition limit() const { return limit_; }    // may issue ops before this
  [[nodiscard]] OpPosition issued() const { return issued_; }  // has issued ops before this

  // Issues nothing until Allow.
  void Gate() { limit_ = 0; }
  // Ops before the position may be issued, unless the rank is killed before.
  void Allow(OpPosition position);
  // That many ops follow the last iteration.
  void Prolong(OpPosition ops);

  // The host does something else before the op at the limit.
  void InsertGap(DurationNs duration_ns) { AddGap({limit_, duration_ns}); }
  // Passes the gaps that it has reached; false: none.
  bool PassGaps();

  // The wait that is next to be issued; nullptr: something else is.
  [[nodiscard]] const HostWait* NextWait() const;
  [[nodiscard]] int32_t wait_iteration() const { return wait_iteration_; }
  [[nodiscard]] size_t wait_index() const { return next_wait_; }  // of RolePlan::host_waits
  // Ends that wait: later ops are issued at `base`, by lane, plus their host time.
  void PassWait(std::vector<TimeNs> base);
  // Issues ops up to the next wait, gap or limit.
  void IssueOps(OpTraces* traces);

  // The times of a run of ops, from `begin` to that of the next segment: op p is issued at base +
  // RolePlan::HostNsUntil(p). A new segment begins wherever the host waited.
  struct Segment {
    OpPosition begin = 0;
    std::vector<TimeNs> base;  // by lane
  };

  // The last one.
  [[nodiscard]] const Segment& current() const { return segments_.back(); }
  [[nodiscard]] uint32_t segment_count() const { return static_cast<uint32_t>(segments_.size()); }

  // The segment of an issued op, `segment` or a later one.
  [[nodiscard]] uint32_t Find(uint32_t segment, OpPosition position) const {
    while (segment + 1 < segments_.size() && segments_[segment + 1].begin <= position) {
      ++segment;
    }
    return segment;
  }
  // Where the segment ends, as far as ops are issued.
  [[nodiscard]] OpPosition EndOf(uint32_t segment) const {
    return segment + 1 < segments_.size() ? std::min(issued_, segments_[segment + 1].begin)
                                          : issued_;
  }
  [[nodiscard]] const TimeNs* BaseOf(uint32_t segment) const {
    return segments_[segment].base.data();
  }
  [[nodiscard]] const Segment& SegmentAt(OpPosition position) const;

  // Of the first lane: when everything up to the limit is issued; empty: not yet.
  [[nodiscard]] std::optional<TimeNs> Time() const;
  // The first lane was that much slower or faster than its graph.
  void Shift(DurationNs duration_ns);

 private:
  struct Gap {
    OpPosition position = 0;
    DurationNs duration_ns = 0;
  };

  void AddGap(Gap gap);
  [[nodiscard]] OpPosition WaitPosition() const;

  const RolePlan& plan_;
  OpPosition end_ = 0;
  OpPosition killed_at_ = 0;  // end_: not killed
  OpPosition limit_ = 0;
  OpPosition issued_ = 0;
  size_t next_wait_ = 0;
  int32_t wait_iteration_ = 0;
  std::vector<Gap> gaps_;  // not reached yet, ascending
  std::vector<Segment> segments_;
};

}  // namespace prism::replayer
