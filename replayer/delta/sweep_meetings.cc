// The part of Sweep that settles meetings.
#include <algorithm>
#include <set>
#include <utility>

#include "graph/rank_slots.h"
#include "replayer/delta/sweep.h"

namespace prism::replayer {

void Sweep::Settle(uint32_t meeting) {
  floor_ = meeting;
  settling_ = meeting;
  std::vector<Waiting>& waiting = waiting_[meeting];
  const auto gone = [this](const Waiting& w) { return !units_[w.unit].alive; };
  waiting.erase(std::remove_if(waiting.begin(), waiting.end(), gone), waiting.end());
  if (job_.schedule.meetings[meeting].comm_class == kNone) {
    SettleMessage(meeting);
  } else {
    SettleCollective(meeting);
  }
  waiting.clear();
  Deliver();
  settling_ = kNone;
  floor_ = meeting + 1;
  std::sort(delivered_.begin(), delivered_.end());
  delivered_.erase(std::unique(delivered_.begin(), delivered_.end()), delivered_.end());
  for (uint32_t unit : std::exchange(delivered_, {})) {
    Advance(unit);
  }
}

Sweep::TouchedComm& Sweep::Touch(uint32_t comm, uint32_t instance) {
  uint32_t& index = touched_of_[comm];
  if (index == kNone) {
    index = static_cast<uint32_t>(touched_.size());
    TouchedComm touched;
    touched.comm = comm;
    touched.instance = instance;
    touched_.push_back(std::move(touched));
  }
  return touched_[index];
}

// Notes in the communicators of a unit when its ranks arrive.
void Sweep::MeetAtCollective(const Waiting& waiting) {
  const Unit& unit = units_[waiting.unit];
  const uint32_t c = unit.class_index;
  const ScheduledTransfer& transfer = ScheduleOf(c).transfers[waiting.transfer];
  const uint16_t slot = PlanOf(c).calls[transfer.index].comm_slot;
  const uint32_t instance = job_.partition.classes[c].comms[slot].instance_of[unit.lane];
  const TimeNs before = job_.baseline.Arrival(c, transfer.hold, unit.lane);
  const uint16_t stream =
      ScheduleOf(c).actions[ScheduleOf(c).holds[transfer.hold].arrive].action.stream;
  const TimeNs arrival = unit.open[stream].times.arrival;
  const bool lowered =
      arrival < before && before == job_.baseline.Latest(transfer.meeting, instance);
  const bool other = unit.variant != kNone && (*variants_)[unit.variant].other_transfers;
  for (uint32_t rank : unit.ranks) {
    TouchedComm& touched = Touch(CommStandsFor(job_.graph.ranks.comms(Rank(rank))[slot]), instance);
    touched.latest = std::max(touched.latest, arrival);
    touched.lowered = touched.lowered || lowered;
    touched.transfer_ns =
        std::max(touched.transfer_ns, CostsOf(unit).transfers->call_ns[transfer.index]);
    touched.differs = touched.differs || other;
    if (other) {
      touched.classes.push_back(waiting.transfer);
    }
  }
}

const Party* Sweep::PartyOf(uint32_t meeting, uint32_t rank, uint32_t comm) const {
  const uint32_t c = job_.partition.class_of[rank];
  const uint16_t slot = graph::CommSlotOf(job_.graph.ranks, Rank(rank), CommId(comm));
  for (const Party& party : job_.schedule.parties_of(job_.schedule.meetings[meeting])) {
    const uint32_t call = ScheduleOf(party.class_index).transfers[party.transfer].index;
    if (party.class_index == c && PlanOf(c).calls[call].comm_slot == slot) {
      return &party;
    }
  }
  PRISM_CHECK(false);
  return nullptr;
}

// When the rank reached the transfer, which it has.
TimeNs Sweep::ArrivalOf(uint32_t rank, const Party& party) const {
  const uint32_t c = party.class_index;
  const ScheduledTransfer& transfer = ScheduleOf(c).transfers[party.transfer];
  if (UnitOf(rank) != kNone) {
    const Unit& unit = units_[UnitOf(rank)];
    const uint16_t stream =
        ScheduleOf(c).actions[ScheduleOf(c).holds[transfer.hold].arrive].action.stream;
    if (unit.open[stream].hold == transfer.hold) {
      return unit.open[stream].times.arrival;
    }
    for (const EagerSend& sent : unit.sent) {
      if (sent.transfer == party.transfer) {
        return sent.arrival;
      }
    }
  }
  return job_.baseline.Arrival(c, transfer.hold, job_.partition.lane_of[rank]);
}

// Over all members, whether in units or not.
TimeNs Sweep::LatestOfAll(uint32_t meeting, uint32_t comm) const {
  TimeNs latest = 0;
  for (uint32_t member : job_.graph.communicators.members_of(CommId(comm))) {
    latest = std::max(latest, ArrivalOf(member, *PartyOf(meeting, member, comm)));
  }
  return latest;
}

TimeRange Sweep::RangeOf(uint32_t meeting, const TouchedComm& touched) const {
  const TimeNs before = job_.baseline.Latest(meeting, touched.instance);
  TimeNs latest = before;
  if (touched.latest >= before) {
    latest = touched.latest;
  } else if (touched.lowered) {
    latest = LatestOfAll(meeting, touched.comm);
  }
  DurationNs transfer_ns = job_.baseline.TransferNs(meeting);
  if (touched.differs) {
    // Members outside units keep their durations.
    transfer_ns = touched.transfer_ns;
    for (const Party& party : job_.schedule.parties_of(job_.schedule.meetings[meeting])) {
      if (std::find(touched.classes.begin(), touched.classes.end(), party.transfer) ==
          touched.classes.end()) {
        const uint32_t call = ScheduleOf(party.class_index).transfers[party.transfer].index;
        transfer_ns = std::max(transfer_ns,
                               job_.baseline.of_class(party.class_index).transfers.call_ns[call]);
      }
    }
  }
  return {latest, latest + transfer_ns};
}

void Sweep::SettleCollective(uint32_t meeting) {
  const std::vector<Waiting>& waiting = waiting_[meeting];
  for (const Waiting& w : waiting) {
    MeetAtCollective(w);
  }
  for (TouchedComm& touched : touched_) {
    touched.range = RangeOf(meeting, touched);
    const TimeNs begin = job_.baseline.Latest(meeting, touched.instance);
    if (touched.range == TimeRange{begin, begin + job_.baseline.TransferNs(meeting)}) {
      continue;
    }
    for (uint32_t member : job_.graph.communicators.members_of(CommId(touched.comm))) {
      if (UnitOf(member) == kNone) {
        Tell(StandsFor(member), *PartyOf(meeting, member, touched.comm), touched.range);
      }
    }
  }
  for (const Waiting& w : waiting) {
    const Unit& unit = units_[w.unit];
    const uint32_t call = ScheduleOf(unit.class_index).transfers[w.transfer].index;
    const uint16_t slot = PlanOf(unit.class_index).calls[call].comm_slot;
    for (uint32_t rank : unit.ranks) {
      const uint32_t comm = CommStandsFor(job_.graph.ranks.comms(Rank(rank))[slot]);
      Tell(rank, {unit.class_index, w.transfer}, touched_[touched_of_[comm]].range);
    }
  }
  for (const TouchedComm& touched : touched_) {
    touched_of_[touched.comm] = kNone;
  }
  touched_.clear();
}

// How long the rank's side of a message takes.
DurationNs Sweep::PostNs(uint32_t rank, const Party& party) const {
  const uint32_t post = ScheduleOf(party.class_index).transfers[party.transfer].index;
  const TransferCosts& before = job_.baseline.of_class(party.class_index).transfers;
  const uint32_t v = variant_of_[rank];
  return (v == kNone ? before : *(*variants_)[v].costs.transfers).post_ns[post];
}

void Sweep::SettleMessage(uint32_t meeting) {
  const auto parties = job_.schedule.parties_of(job_.schedule.meetings[meeting]);
  const Party& from = parties[0];
  const Party& to = parties[1];
  const auto peer_of = [this](uint32_t rank, const Party& party) {
    const RolePlan& plan = PlanOf(party.class_index);
    const uint32_t post = ScheduleOf(party.class_index).transfers[party.transfer].index;
    return StandsFor(
        job_.graph.ranks.peers(Rank(rank))[plan.endpoints[plan.posts[post].endpoint].peer_slot]);
  };
  std::vector<std::pair<uint32_t, uint32_t>> pairs;  // receiver, sender
  for (const Waiting& w : waiting_[meeting]) {
    const Unit& unit = units_[w.unit];
    const bool sends = unit.class_index == from.class_index && w.transfer == from.transfer;
    for (uint32_t rank : unit.ranks) {
      pairs.emplace_back(sends ? peer_of(rank, from) : rank, sends ? rank : peer_of(rank, to));
    }
  }
  std::sort(pairs.begin(), pairs.end());
  pairs.erase(std::unique(pairs.begin(), pairs.end()), pairs.end());
  const ScheduledTransfer& post = ScheduleOf(from.class_index).transfers[from.transfer];
  const bool eager = post.side == TransferSide::kEagerSend;
  const bool fixed = PlanOf(from.class_index).posts[post.index].fixed_ns >= 0;
  for (const auto& [receiver, sender] : pairs) {
    const TimeNs sent = ArrivalOf(sender, from);
    const TimeNs received = ArrivalOf(receiver, to);
    const DurationNs own = PostNs(sender, from);
    const DurationNs transfer_ns = fixed ? own : std::max(own, PostNs(receiver, to));
    const auto tell = [&](uint32_t rank, const Party& party, TransferSide side) {
      const TimeRange range = MessageRange(side, eager, sent, received, transfer_ns);
      const TimeRange before =
          job_.baseline.TransferOf(party.class_index, party.transfer, job_.partition.lane_of[rank]);
      if (unit_of_[rank] != kNone || range != before) {
        Tell(rank, party, range);
      }
    };
    tell(receiver, to, TransferSide::kReceive);
    if (!eager) {
      tell(sender, from, TransferSide::kSend);
    }
  }
  if (from.class_index == to.class_index && !eager) {
    TellOtherEnds(meeting);
  }
}

// Where the ranks of a class send to each other, a rank waits at both of its ends of the meeting.
// One that is woken at one of them gets the outcome of the other as well, which is unchanged.
void Sweep::TellOtherEnds(uint32_t meeting) {
  const auto parties = job_.schedule.parties_of(job_.schedule.meetings[meeting]);
  std::set<std::pair<uint32_t, uint32_t>> told;  // rank, transfer
  for (const Outcome& outcome : outcomes_) {
    told.emplace(outcome.rank, outcome.transfer);
  }
  for (const auto& [rank, transfer] : told) {
    const Party& other = parties[transfer == parties[0].transfer ? 1 : 0];
    if (unit_of_[rank] == kNone && !told.contains({rank, other.transfer})) {
      Tell(rank, other,
           job_.baseline.TransferOf(other.class_index, other.transfer,
                                    job_.partition.lane_of[rank]));
    }
  }
}

void Sweep::Tell(uint32_t rank, const Party& party, TimeRange range) {
  Outcome outcome;
  outcome.class_index = party.class_index;
  outcome.lane = job_.partition.lane_of[rank];
  outcome.variant = variant_of_[rank];
  outcome.unit = unit_of_[rank];
  outcome.transfer = party.transfer;
  outcome.begin = range.begin;
  outcome.end = range.end;
  outcome.rank = rank;
  outcomes_.push_back(outcome);
}

// Ranks that are equal and receive the same outcomes continue together, unless earlier outcomes
// have put them into several units. A representative receives the outcomes of every rank that it
// represents.
void Sweep::Deliver() {
  told_ += std::ssize(outcomes_);
  std::sort(outcomes_.begin(), outcomes_.end());
  outcomes_.erase(std::unique(outcomes_.begin(), outcomes_.end()), outcomes_.end());
  const std::vector<Outcome> outcomes = std::exchange(outcomes_, {});
  for (auto begin = outcomes.begin(); begin != outcomes.end();) {
    std::vector<uint32_t> ranks;
    auto outcome = begin;
    for (; outcome != outcomes.end() && begin->SameAs(*outcome); ++outcome) {
      ranks.push_back(outcome->rank);
    }
    while (!ranks.empty()) {
      const uint32_t unit = unit_of_[ranks.front()];
      const auto others = std::stable_partition(
          ranks.begin(), ranks.end(), [&](uint32_t rank) { return unit_of_[rank] == unit; });
      std::vector<uint32_t> left(others, ranks.end());
      ranks.erase(others, ranks.end());
      DeliverTo(*begin, std::move(ranks));
      ranks = std::move(left);
    }
    begin = outcome;
  }
}

void Sweep::DeliverTo(const Outcome& outcome, std::vector<uint32_t> ranks) {
  uint32_t index = unit_of_[ranks.front()];
  if (index == kNone) {
    index = Wake(outcome, std::move(ranks));
  } else if (units_[index].ranks.size() > ranks.size()) {
    index = Split(index, std::move(ranks));
  }
  Unit& unit = units_[index];
  const ClassSchedule& schedule = ScheduleOf(unit.class_index);
  const uint32_t hold = schedule.transfers[outcome.transfer].hold;
  OpenHold& open = unit.open[schedule.actions[schedule.holds[hold].arrive].action.stream];
  PRISM_CHECK(unit.alive);
  PRISM_CHECK_EQ(open.hold, hold);
  PRISM_CHECK(open.waiting > 0);
  const TimeRange range = {outcome.begin, outcome.end};
  open.times.Add(range);
  --open.waiting;
  open.differs = open.differs ||
                 range != job_.baseline.TransferOf(unit.class_index, outcome.transfer, unit.lane);
  delivered_.push_back(index);
}

}  // namespace prism::replayer
