// The virtual time of one class of ranks: a host cursor that issues ops, one cursor per stream that
// executes what was issued. The host runs ahead of its streams until it has to wait; a stream stops
// in front of a collective until the others are there. Advance moves everything as far as it can.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "replayer/breakdown.h"
#include "replayer/cost/collective_cost.h"
#include "replayer/engine.h"
#include "replayer/partition.h"
#include "replayer/rendezvous.h"

namespace prism::replayer {

// Traffic of one communicator slot in the last iteration, as this class saw it.
struct SlotTraffic {
  int64_t calls = 0;
  int64_t bytes = 0;
  DurationNs transfer_ns = 0;
  DurationNs wait_ns = 0;
};

// What stops a class that cannot go on.
struct Obstacle {
  enum class Kind : uint8_t { kNothing, kGate, kKilled, kCollective, kPeers, kEvent };
  Kind kind = Kind::kNothing;
  OpPosition position = 0;  // of the op that cannot go on
  bool host_waits = false;  // the host thread itself is stuck, not only a stream
};

class RankTimeline {
 public:
  struct Config {
    const Partition* partition = nullptr;
    const CollectiveCost* collective_cost = nullptr;
    const ReplayOptions* options = nullptr;
    double overlap_slowdown = 1;
    uint32_t class_index = 0;
    HoldId first_hold = 0;  // of its streams, consecutive
    bool traced = false;    // keep the timeline of every op
    bool gated = false;     // stands still until Issue
  };

  explicit RankTimeline(const Config& config);

  void Advance(Rendezvous* rendezvous);
  [[nodiscard]] bool finished() const;

  // Gate of a sandbox rank; see Engine.
  void Issue(OpPosition position);
  void InsertHostGap(DurationNs duration_ns);
  [[nodiscard]] std::optional<TimeNs> HostTime() const;
  [[nodiscard]] std::optional<TimeNs> EndTime(OpPosition position) const;

  [[nodiscard]] Obstacle FindObstacle() const;

  // Results of a finished timeline.
  [[nodiscard]] DurationNs IterationNs(int32_t iteration) const;
  [[nodiscard]] RankTimes Times() const;
  [[nodiscard]] const std::vector<SlotTraffic>& traffic() const { return traffic_; }
  [[nodiscard]] const Timeline& trace() const { return trace_; }

  [[nodiscard]] const RolePlan& plan() const { return plan_; }
  [[nodiscard]] uint32_t stream_count() const { return static_cast<uint32_t>(cursors_.size()); }

 private:
  static constexpr TimeNs kUnknown = -1;

  // From `begin` on, op p is issued at base + CumulativeHost(p). A new segment begins wherever the
  // host waited.
  struct Segment {
    OpPosition begin = 0;
    TimeNs base = 0;
  };

  struct HostGap {
    OpPosition position = 0;
    DurationNs duration_ns = 0;
  };

  struct StreamCursor {
    TimeNs tail = 0;
    uint32_t next = 0;  // step
    int32_t iteration = 0;
    uint32_t segment = 0;
    bool holding = false;
    std::vector<TimeRange> compute;  // of the last two iterations, merged, ascending
  };

  void CostTransfers();
  bool AdvanceHost();
  bool ApplyGaps();
  [[nodiscard]] OpPosition NextHostWait() const;
  bool PassHostWait();
  [[nodiscard]] std::optional<TimeNs> HostWaitTarget(const HostWait& wait) const;
  void TraceHostOps(OpPosition begin, OpPosition end);
  bool AdvanceStream(uint16_t stream);
  void RunWork(StreamCursor* cursor, const std::vector<Step>& steps);
  bool Execute(StreamCursor* cursor, const Step& step, TimeNs issue);
  bool ExecuteWait(StreamCursor* cursor, const Step& step, TimeNs issue);
  void ReachCollective(StreamCursor* cursor, const Step& step, TimeNs arrival);
  void ReachPeerGroup(StreamCursor* cursor, const Step& step, TimeNs arrival);
  void FinishHold(StreamCursor* cursor, const Step& step);
  void CountTraffic(const Step& step, const Hold& hold);
  void AddCompute(StreamCursor* cursor, TimeNs begin, TimeNs end) const;
  void TraceHold(const StreamCursor& cursor, const Step& step, const Hold& hold);
  void TraceStep(const StreamCursor& cursor, const Step& step, TimeNs issue, TimeNs start);
  void SelectSegment(StreamCursor* cursor, OpPosition position) const;
  [[nodiscard]] bool Drained(uint16_t stream) const;
  [[nodiscard]] OpPosition PositionOf(const StreamCursor& cursor, const Step& step) const;
  [[nodiscard]] HoldId HoldOf(const StreamCursor* cursor) const;
  [[nodiscard]] DurationNs CumulativeHost(OpPosition position) const;
  [[nodiscard]] TimeNs HostTimeAt(OpPosition position) const;
  [[nodiscard]] TimeNs IterationStart(int32_t iteration) const;
  [[nodiscard]] bool Collects(int32_t iteration) const { return iteration + 2 >= iterations_; }
  [[nodiscard]] size_t EventIndex(int32_t iteration, uint32_t event) const;

  Config config_;
  const RankClass& rank_class_;
  const RolePlan& plan_;
  Rendezvous* rendezvous_ = nullptr;  // during Advance
  int32_t iterations_ = 0;
  OpPosition end_ = 0;       // of all iterations
  OpPosition limit_ = 0;     // the host may issue ops before this
  OpPosition frontier_ = 0;  // it has issued ops before this
  size_t next_wait_ = 0;     // index into RolePlan::host_waits
  int32_t wait_iteration_ = 0;
  std::vector<Segment> segments_;
  std::vector<HostGap> gaps_;  // not reached yet, ascending
  std::vector<StreamCursor> cursors_;
  std::vector<TimeNs> events_;           // by iteration and event; kUnknown until recorded
  std::vector<TimeNs> starts_;           // by iteration: first op on its stream
  std::vector<DurationNs> call_ns_;      // by call: until its end, from the start of its group
  std::vector<DurationNs> transfer_ns_;  // by TransferKind
  std::vector<DurationNs> post_ns_;      // by PeerPost
  std::vector<DurationNs> charge_ns_;    // by charge
  std::vector<SlotTraffic> traffic_;     // by communicator slot
  Activity activity_;                    // transfers and waits; compute sits in the cursors
  Timeline trace_;                       // empty unless traced
};

}  // namespace prism::replayer
