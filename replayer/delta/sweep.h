// Propagates an edit through a recorded replay: which ranks have different times than before, and
// from where on.
//
// Ranks leave the baseline as units: ranks of one lane with the same history since. A unit begins
// at a checkpoint before the first thing that differs and executes the schedule of its class; a
// unit whose ranks begin to differ is split. Meetings are settled in the order of the schedule,
// each once all units on their way to it have arrived; where the outcome differs from the baseline,
// ranks that are not in a unit yet join one. A unit whose state at a checkpoint equals the
// baseline's is dissolved: its ranks continue as in the baseline.
//
// Where an edit affects whole lanes, the ranks of a lane stay equal: one of them represents all,
// and one communicator represents those with equal times.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <queue>
#include <utility>
#include <vector>

#include "replayer/delta/variant.h"

namespace prism::replayer {

// The totals of a rank at the end, or of every rank of its lane.
struct RankTotals {
  uint32_t rank = 0;
  bool of_lane = false;
  std::vector<TimeNs> starts;  // as LaneTimes
  Breakdown::Covered covered = {};
  std::vector<DurationNs> transfer_ns;  // as LaneTimes
  std::vector<DurationNs> wait_ns;
};

class Sweep {
 public:
  // `most_work`: as DeltaSettings.
  Sweep(const RecordedJob& job, double most_work);

  // Totals of the ranks that differ, in no particular order; null where a full replay is likely to
  // be faster. May be called again.
  std::optional<std::vector<RankTotals>> Run(const std::vector<Variant>& variants);

  // Which communicator represents this one: itself unless whole lanes differ.
  [[nodiscard]] uint32_t CommStandsFor(uint32_t comm) const {
    return whole_lanes_ ? comm_stands_for_[comm] : comm;
  }

  // Of the last run: actions executed, summed over units; and ranks that are in no variant but
  // whose times differ somewhere (lanes, where whole lanes differ).
  [[nodiscard]] int64_t executed() const { return executed_; }
  [[nodiscard]] int64_t reached() const { return reached_; }

 private:
  // A stream before its transfers.
  struct OpenHold {
    uint32_t hold = kNone;
    uint32_t waiting = 0;  // transfers not settled yet
    bool differs = false;  // a settled one took place at a different time than before
    HoldTimes times;
    std::vector<uint32_t> among;  // completed transfers among the unit's own ranks
  };

  // Whether a unit's ranks are all members of the communicators of a slot: their collectives
  // involve nobody else and need no meeting.
  enum class Among : uint8_t { kUnknown, kOthers, kThemselves };

  // An eager send at a different time than before.
  struct EagerSend {
    uint32_t transfer = 0;
    TimeNs arrival = 0;
  };

  struct Unit {
    uint32_t class_index = 0;
    uint32_t lane = 0;
    uint32_t variant = kNone;
    bool alive = true;
    std::vector<uint32_t> ranks;
    LaneTimes times;
    uint32_t position = 0;  // next action
    uint32_t next_checkpoint = 0;
    std::vector<OpenHold> open;   // by stream
    std::vector<Among> among;     // by communicator slot
    std::vector<EagerSend> sent;  // whose receivers may not have arrived
  };

  // A unit that waits at a meeting with one of its transfers.
  struct Waiting {
    uint32_t unit = 0;
    uint32_t transfer = 0;
  };

  // A variant that is to join from a checkpoint, before a meeting is settled.
  struct Activation {
    uint32_t before = 0;  // meeting
    uint32_t variant = 0;
    uint32_t checkpoint = 0;

    auto operator<=>(const Activation&) const = default;
  };

  // The outcome of a meeting for one rank.
  struct Outcome {
    uint32_t class_index = 0;
    uint32_t lane = 0;
    uint32_t variant = kNone;
    uint32_t unit = kNone;
    uint32_t transfer = 0;
    TimeNs begin = 0;
    TimeNs end = 0;
    uint32_t rank = 0;

    auto operator<=>(const Outcome&) const = default;
    [[nodiscard]] bool SameAs(const Outcome& other) const;
  };

  // A communicator that a unit's ranks are members of.
  struct TouchedComm {
    uint32_t comm = 0;
    uint32_t instance = 0;
    TimeNs latest = 0;              // of members in units
    bool lowered = false;           // a member that was last before arrives earlier
    DurationNs transfer_ns = 0;     // longest among members in units
    std::vector<uint32_t> classes;  // of them; only where transfers differ
    bool differs = false;           // transfers of some of them take a different time
    TimeRange range;
  };

  // Likewise of ranks.
  [[nodiscard]] uint32_t StandsFor(uint32_t rank) const;
  [[nodiscard]] uint32_t UnitOf(uint32_t rank) const { return unit_of_[StandsFor(rank)]; }

  void FindCommunicatorsAlike();
  [[nodiscard]] double WorkOfFullReplay() const;
  void Begin(const std::vector<Variant>& variants);
  bool Carry();
  std::vector<RankTotals> Finish();
  [[nodiscard]] const LaneCosts& CostsOf(const Unit& unit) const;
  [[nodiscard]] const ClassSchedule& ScheduleOf(uint32_t c) const {
    return job_.schedule.classes[c];
  }
  [[nodiscard]] const RolePlan& PlanOf(uint32_t c) const;

  void ScheduleActivation(uint32_t variant, uint32_t position);
  void Activate(const Activation& activation);
  uint32_t Restore(uint32_t c,
                   uint32_t lane,
                   uint32_t variant,
                   uint32_t checkpoint,
                   std::vector<uint32_t> ranks);
  uint32_t Wake(const Outcome& outcome, std::vector<uint32_t> ranks);
  uint32_t Split(uint32_t unit, std::vector<uint32_t> ranks);
  void Advance(uint32_t unit);
  bool Dissolve(Unit* unit, uint32_t checkpoint);
  [[nodiscard]] bool SameAsBefore(const Unit& unit, uint32_t checkpoint) const;
  void AddTotals(const Unit& unit, const LaneTimes& before);
  void OpenTransfers(uint32_t unit, uint32_t hold, uint16_t stream, TimeNs arrival);
  void Pend(uint32_t meeting, uint32_t unit, uint32_t transfer);
  bool IsAmongThemselves(Unit* unit, const ScheduledTransfer& transfer);
  [[nodiscard]] bool HoldsAllMembers(const Unit& unit, uint16_t slot) const;
  void Settle(uint32_t meeting);
  void SettleCollective(uint32_t meeting);
  void SettleMessage(uint32_t meeting);
  void TellOtherEnds(uint32_t meeting);
  TouchedComm& Touch(uint32_t comm, uint32_t instance);
  void MeetAtCollective(const Waiting& waiting);
  [[nodiscard]] TimeRange RangeOf(uint32_t meeting, const TouchedComm& touched) const;
  [[nodiscard]] TimeNs LatestOfAll(uint32_t meeting, uint32_t comm) const;
  [[nodiscard]] const Party* PartyOf(uint32_t meeting, uint32_t rank, uint32_t comm) const;
  [[nodiscard]] TimeNs ArrivalOf(uint32_t rank, const Party& party) const;
  [[nodiscard]] DurationNs PostNs(uint32_t rank, const Party& party) const;
  void Tell(uint32_t rank, const Party& party, TimeRange range);
  void Deliver();
  void DeliverTo(const Outcome& outcome, std::vector<uint32_t> ranks);

  RecordedJob job_;
  const std::vector<Variant>* variants_ = nullptr;
  bool whole_lanes_ = false;
  std::vector<uint32_t> comm_stands_for_;  // by communicator, where whole lanes differ
  double most_work_ = 0;                   // from which on a full replay is likely to be faster
  int64_t told_ = 0;                       // outcomes of meetings
  int64_t executed_ = 0;
  int64_t reached_ = 0;
  uint32_t floor_ = 0;         // meetings before this are settled
  uint32_t settling_ = kNone;  // the meeting that is being settled
  std::deque<Unit> units_;
  std::vector<uint32_t> unit_of_;              // by rank
  std::vector<uint32_t> variant_of_;           // by rank
  std::vector<uint32_t> totals_of_;            // by rank: index into totals_
  std::vector<std::vector<Waiting>> waiting_;  // by meeting
  std::vector<uint32_t> touched_of_;           // by communicator: index into touched_
  std::vector<TouchedComm> touched_;
  std::vector<Outcome> outcomes_;
  std::vector<uint32_t> delivered_;  // units
  std::vector<RankTotals> totals_;
  std::priority_queue<uint32_t, std::vector<uint32_t>, std::greater<>> meetings_;
  std::priority_queue<Activation, std::vector<Activation>, std::greater<>> activations_;
};

}  // namespace prism::replayer
