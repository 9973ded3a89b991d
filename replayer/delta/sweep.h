// Carries an edit through a recorded replay: who takes other times than before, and from where on.
//
// Ranks leave the baseline as units: ranks of one lane with the same history since. A unit begins
// at a checkpoint before the first thing that differs and executes the schedule of its class; a
// unit whose ranks come to differ is split. Meetings are settled in the order of the schedule, each
// once all units on their way to it have come; where the outcome is another than before, ranks that
// are not in a unit yet join one. A unit that knows exactly what the baseline knew at a checkpoint
// is dissolved: its ranks go on as before.
//
// Where an edit concerns whole lanes, ranks of a lane stay alike: one of them stands for all, and
// one communicator for those that are alike in time.
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

// What a rank comes to in the end, or all ranks of its lane.
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

  // Totals of the ranks that differ, in no particular order; nothing where a full replay is likely
  // to take less time. May be called again.
  std::optional<std::vector<RankTotals>> Run(const std::vector<Variant>& variants);

  // Which communicator stands for this one: itself unless whole lanes differ.
  [[nodiscard]] uint32_t CommStandsFor(uint32_t comm) const {
    return whole_lanes_ ? comm_stands_for_[comm] : comm;
  }

  // Of the last run: units times actions executed, and ranks that take other times somewhere though
  // they are in no variant; where whole lanes differ, lanes.
  [[nodiscard]] int64_t executed() const { return executed_; }
  [[nodiscard]] int64_t reached() const { return reached_; }

 private:
  // A stream before its transfers.
  struct OpenHold {
    uint32_t hold = kNone;
    uint32_t waiting = 0;  // transfers not settled yet
    bool differs = false;  // one that was settled took place at another time than before
    HoldTimes times;
    std::vector<uint32_t> among;  // transfers of the unit's ranks alone, which are over
  };

  // Whether a unit's ranks are all members of the communicators of a slot: a collective of theirs
  // concerns nobody else and needs no meeting.
  enum class Among : uint8_t { kUnknown, kOthers, kThemselves };

  // An eager send at another time than before.
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
    std::vector<EagerSend> sent;  // whose receivers may not have come
  };

  // A unit that stands at a meeting with one of its transfers.
  struct Waiting {
    uint32_t unit = 0;
    uint32_t transfer = 0;
  };

  // A variant is to join in from a checkpoint, before a meeting is settled.
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
    bool lowered = false;           // a last member of before comes earlier
    DurationNs transfer_ns = 0;     // longest among members in units
    std::vector<uint32_t> classes;  // of them; only where transfers differ
    bool differs = false;           // transfers of some of them take another time
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
  uint32_t floor_ = 0;         // meetings before this are over
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
