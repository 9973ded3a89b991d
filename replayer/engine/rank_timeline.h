// The virtual time of one class of ranks: a host cursor that issues ops, one cursor per stream that
// executes what was issued. The host runs ahead of its streams until it has to wait; a stream stops
// before a collective until the others have arrived. Advance moves everything as far as possible.
//
// Cursors belong to the class, times to its lanes (replayer/engine/partition.h): every time here is
// a row with one value per lane.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "replayer/cost/collective_cost.h"
#include "replayer/engine/action.h"
#include "replayer/engine/class_costs.h"
#include "replayer/engine/engine.h"
#include "replayer/engine/host_cursor.h"
#include "replayer/engine/lane_activity.h"
#include "replayer/engine/lane_stream.h"
#include "replayer/engine/meeting.h"
#include "replayer/engine/op_traces.h"
#include "replayer/engine/partition.h"
#include "replayer/engine/runnable_streams.h"

namespace prism::replayer {

// Traffic of one communicator slot in the last iteration, as this class saw it.
struct SlotTraffic {
  int64_t calls = 0;
  int64_t bytes = 0;
  std::vector<DurationNs> transfer_ns;  // by lane
  std::vector<DurationNs> wait_ns;      // by lane
};

// What stops a class that cannot advance.
struct Obstacle {
  enum class Kind : uint8_t { kNothing, kGate, kKilled, kCollective, kPeers, kEvent };
  Kind kind = Kind::kNothing;
  OpPosition position = 0;  // of the op that cannot advance
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
    HoldId first_hold = 0;                   // of its streams, consecutive
    std::vector<uint32_t> traced;            // lanes whose complete timeline is kept
    bool gated = false;                      // waits for Issue; has one lane
    std::vector<Action>* actions = nullptr;  // where to record what is done, if at all
  };

  explicit RankTimeline(const Config& config);

  void Advance(Meetings* meetings);
  // A hold of one of its streams was settled: the next Advance continues there. May be called while
  // another thread runs Advance; call Advance again then.
  void NoteSettled(HoldId hold) {
    runnable_.NoteSettled(static_cast<uint16_t>(hold - config_.first_hold));
  }
  [[nodiscard]] int64_t stream_looks() const { return runnable_.asked(); }
  [[nodiscard]] bool finished() const;
  // When finished: runs the beginning of the iteration after the last (RolePlan::ahead), which
  // determines when the last one ends. Call before asking for results.
  void RunAhead(Meetings* meetings);

  // Gate of a sandbox rank; see Engine.
  void Issue(OpPosition position);
  void InsertHostGap(DurationNs duration_ns);
  [[nodiscard]] std::optional<TimeNs> HostTime() const;
  [[nodiscard]] std::optional<TimeNs> EndTime(OpPosition position) const;
  [[nodiscard]] std::optional<TimeNs> IdleTime() const;

  // Arrivals of a sandbox rank on a real GPU; see Engine.
  void MeasureArrivals();
  void Arrive(OpPosition position, TimeNs time);
  [[nodiscard]] std::optional<TimeNs> ComputedArrival(OpPosition position) const;

  [[nodiscard]] Obstacle FindObstacle() const;

  // Results of a finished timeline.
  [[nodiscard]] DurationNs IterationNs(int32_t iteration, uint32_t lane) const;
  [[nodiscard]] TimeNs SteadyBegin(uint32_t lane) const {
    return IterationStart(iterations_ - 1, lane);
  }
  [[nodiscard]] std::vector<RankTimes> Times();  // by lane; once
  [[nodiscard]] const std::vector<SlotTraffic>& traffic() const { return traffic_; }
  [[nodiscard]] const Timeline& TraceOf(uint32_t lane) const { return traces_.Of(lane); }

  [[nodiscard]] const RolePlan& plan() const { return plan_; }
  [[nodiscard]] uint32_t lane_count() const { return lanes_; }
  [[nodiscard]] int64_t folded_ops() const { return folded_ops_; }
  [[nodiscard]] uint32_t stream_count() const { return static_cast<uint32_t>(cursors_.size()); }

 private:
  struct StreamCursor {
    LaneStream lanes;
    uint32_t next = 0;  // step
    int32_t iteration = 0;
    uint32_t segment = 0;  // of the host
    bool holding = false;
  };

  // An event record of one iteration.
  struct Event {
    bool recorded = false;
    std::vector<TimeNs> times;
  };

  // An event that a stream recorded, kept if arrivals are measured.
  struct RecordedEvent {
    OpPosition position = 0;
    size_t event = 0;   // of events_
    size_t stream = 0;  // of cursors_
  };

  bool AdvanceHost();
  bool PassHostWait(const HostWait& wait);
  bool ReadHostWait(const HostWait& wait, std::vector<TimeNs>* target);
  bool AdvanceStream(uint16_t stream);
  void StartIteration(StreamCursor* cursor) const;
  void NoteAction(ActionKind kind, const StreamCursor& cursor, uint32_t first) const;
  // Whether the cursor is at the op that begins an iteration.
  [[nodiscard]] bool Begins(const StreamCursor& cursor) const;
  // Whether the rank's arrival there is measured, not computed.
  [[nodiscard]] bool IsMeasured(const Step& step) const;
  void NoteStart(const StreamCursor& cursor, const IssueTimes& issue);
  void RunWork(StreamCursor* cursor, uint16_t stream);
  bool FoldRun(StreamCursor* cursor, uint16_t stream, OpPosition until);
  void Work(StreamCursor* cursor, const Step& step, const LaneGroup& lanes) const;
  void PerturbedWork(StreamCursor* cursor, const Step& step, const LaneGroup& lanes) const;
  bool Execute(StreamCursor* cursor, const Step& step);
  bool ExecuteWait(StreamCursor* cursor, const Step& step);
  [[nodiscard]] TimeNs ComputedArrivalOf(const StreamCursor& cursor, const Step& step) const;
  bool TakeArrival(StreamCursor* cursor, const Step& step);
  void BeginHold(StreamCursor* cursor, const IssueTimes& issue);
  void ReachCollective(StreamCursor* cursor, const Step& step);
  void ReachPeerGroup(StreamCursor* cursor, const Step& step);
  void Post(const StreamCursor& cursor, uint32_t index);
  void FinishHold(StreamCursor* cursor, const Step& step);
  void CountActivity(bool stuck);
  bool BoundFuture(bool stuck);
  void KeepActivity(const Step& step, Hold* hold);
  void CountTraffic(const Step& step, const Hold& hold, const Meetings& meetings);
  void TraceBegin(const StreamCursor& cursor, const Step& step, const IssueTimes& issue);
  void TraceEnd(const StreamCursor& cursor, const Step& step);
  [[nodiscard]] bool Drained(uint16_t stream) const;
  [[nodiscard]] OpPosition PositionOf(const StreamCursor& cursor, const Step& step) const;
  [[nodiscard]] HoldId HoldOf(const StreamCursor* cursor) const;
  [[nodiscard]] IssueTimes IssueOf(const StreamCursor& cursor, const Step& step) const;
  [[nodiscard]] TimeNs IterationStart(int32_t iteration, uint32_t lane) const;
  [[nodiscard]] bool Collects(int32_t iteration) const {
    return config_.options->breakdown && iteration + 2 >= iterations_;
  }
  [[nodiscard]] size_t EventIndex(int32_t iteration, uint32_t event) const;

  Config config_;
  const RankClass& rank_class_;
  const RolePlan& plan_;
  Meetings* meetings_ = nullptr;  // during Advance
  uint32_t lanes_ = 1;
  int32_t iterations_ = 0;
  HostCursor host_;
  OpTraces traces_;         // of Config::traced
  bool folds_ = false;      // runs of kernels
  int64_t folded_ops_ = 0;  // of all lanes
  LaneActivity activity_;
  std::vector<TimeNs> until_;  // storage of CountActivity
  std::vector<TimeNs> next_;   // of BoundFuture
  bool measured_ = false;
  std::map<OpPosition, TimeNs> arrivals_;  // where measured, not reached yet
  std::vector<StreamCursor> cursors_;
  RunnableStreams runnable_;
  size_t drained_ = 0;         // of the streams that the host waits for, how many are done
  std::vector<Event> events_;  // by iteration, with the one after the last, and event
  std::vector<RecordedEvent> recorded_;      // within the last iteration
  std::vector<std::vector<TimeNs>> starts_;  // by iteration: first op on its stream
  TransferCosts costs_;
  std::vector<std::vector<DurationNs>> charge_ns_;  // by group of lanes and charge
  std::vector<SlotTraffic> traffic_;                // by communicator slot
};

}  // namespace prism::replayer
