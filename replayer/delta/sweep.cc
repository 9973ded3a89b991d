#include "replayer/delta/sweep.h"

#include <algorithm>
#include <utility>

namespace prism::replayer {

bool Sweep::Outcome::SameAs(const Outcome& other) const {
  return class_index == other.class_index && lane == other.lane && variant == other.variant &&
         unit == other.unit && transfer == other.transfer && begin == other.begin &&
         end == other.end;
}

Sweep::Sweep(const RecordedJob& job, double most_work)
    : job_(job),
      comm_stands_for_(job.graph.communicators.size()),
      most_work_(most_work * WorkOfFullReplay()),
      unit_of_(job.graph.ranks.size(), kNone),
      variant_of_(job.graph.ranks.size(), kNone),
      totals_of_(job.graph.ranks.size(), kNone),
      waiting_(job.schedule.meetings.size()),
      touched_of_(job.graph.communicators.size(), kNone) {
  FindCommunicatorsAlike();
}

void Sweep::FindCommunicatorsAlike() {
  std::vector<std::vector<uint32_t>> first;  // by communicator class and instance
  for (const CommClass& comm_class : job_.partition.comm_classes) {
    first.emplace_back(comm_class.instances, kNone);
  }
  for (uint32_t rank = 0; rank < job_.graph.ranks.size(); ++rank) {
    const RankClass& rank_class = job_.partition.classes[job_.partition.class_of[rank]];
    const auto comms = job_.graph.ranks.comms(Rank(rank));
    for (size_t slot = 0; slot < comms.size(); ++slot) {
      const CommEntry& entry = rank_class.comms[slot];
      uint32_t& alike = first[entry.comm_class][entry.instance_of[job_.partition.lane_of[rank]]];
      alike = alike == kNone ? comms[slot] : alike;
      comm_stands_for_[comms[slot]] = alike;
    }
  }
}

uint32_t Sweep::StandsFor(uint32_t rank) const {
  return whole_lanes_ ? job_.partition.classes[job_.partition.class_of[rank]]
                            .lanes[job_.partition.lane_of[rank]]
                            .value()
                      : rank;
}

std::optional<std::vector<RankTotals>> Sweep::Run(const std::vector<Variant>& variants) {
  Begin(variants);
  const bool carried = Carry();
  std::vector<RankTotals> totals = Finish();
  return carried ? std::make_optional(std::move(totals)) : std::nullopt;
}

void Sweep::Begin(const std::vector<Variant>& variants) {
  variants_ = &variants;
  executed_ = 0;
  reached_ = 0;
  told_ = 0;
  floor_ = 0;
  whole_lanes_ = std::all_of(variants.begin(), variants.end(), [this](const Variant& variant) {
    return variant.ranks.size() == job_.ranks_of[variant.class_index][variant.lane].size();
  });
  for (uint32_t v = 0; v < variants.size(); ++v) {
    for (uint32_t rank : variants[v].ranks) {
      variant_of_[rank] = v;
    }
    ScheduleActivation(v, 0);
  }
}

// A full replay evaluates lanes side by side: that many in the time of one here.
double Sweep::WorkOfFullReplay() const {
  constexpr int64_t kLanesAtOnce = 16;
  int64_t work = 0;
  for (uint32_t c = 0; c < job_.partition.classes.size(); ++c) {
    const auto lanes = static_cast<int64_t>(job_.partition.classes[c].lanes.size());
    work += std::ssize(ScheduleOf(c).actions) * (1 + lanes / kLanesAtOnce);
  }
  return static_cast<double>(work);
}

// False where too much differs.
bool Sweep::Carry() {
  constexpr int64_t kActionsPerOutcome = 2;  // in time
  while (!meetings_.empty() || !activations_.empty()) {
    if (static_cast<double>(executed_ + kActionsPerOutcome * told_) > most_work_) {
      return false;
    }
    if (!activations_.empty() &&
        (meetings_.empty() || activations_.top().before <= meetings_.top())) {
      const Activation activation = activations_.top();
      activations_.pop();
      floor_ = std::max(floor_, activation.before);
      Activate(activation);
    } else {
      const uint32_t meeting = meetings_.top();
      meetings_.pop();
      Settle(meeting);
    }
  }
  return true;
}

// Collects the results and resets everything that a run leaves behind.
std::vector<RankTotals> Sweep::Finish() {
  for (const Unit& unit : units_) {
    for (uint32_t rank : unit.ranks) {
      unit_of_[rank] = kNone;
    }
  }
  units_.clear();
  for (const Variant& variant : *variants_) {
    for (uint32_t rank : variant.ranks) {
      variant_of_[rank] = kNone;
    }
  }
  for (; !meetings_.empty(); meetings_.pop()) {
    waiting_[meetings_.top()].clear();
  }
  activations_ = {};
  std::vector<RankTotals> totals = std::exchange(totals_, {});
  for (const RankTotals& rank : totals) {
    totals_of_[rank.rank] = kNone;
  }
  return totals;
}

const LaneCosts& Sweep::CostsOf(const Unit& unit) const {
  return unit.variant == kNone ? job_.baseline.of_class(unit.class_index).costs[unit.lane]
                               : (*variants_)[unit.variant].costs;
}

const RolePlan& Sweep::PlanOf(uint32_t c) const {
  return job_.partition.plans[job_.partition.classes[c].groups.front().plan];
}

// The variant's next change at `position` or after it needs its ranks to be in a unit.
void Sweep::ScheduleActivation(uint32_t v, uint32_t position) {
  const Variant& variant = (*variants_)[v];
  const auto next = std::lower_bound(variant.changed.begin(), variant.changed.end(), position);
  if (next == variant.changed.end()) {
    return;
  }
  const ClassSchedule& schedule = ScheduleOf(variant.class_index);
  const auto& checkpoints = job_.baseline.of_class(variant.class_index).checkpoints;
  const auto after = std::partition_point(
      checkpoints.begin(), checkpoints.end(),
      [&](const Checkpoint& c) { return schedule.cuts[c.cut].position <= *next; });
  const auto checkpoint = static_cast<uint32_t>(after - checkpoints.begin()) - 1;
  activations_.push({schedule.cuts[checkpoints[checkpoint].cut].settled, v, checkpoint});
}

void Sweep::Activate(const Activation& activation) {
  const Variant& variant = (*variants_)[activation.variant];
  std::vector<uint32_t> ranks;
  for (uint32_t rank : variant.ranks) {
    if (rank == StandsFor(rank) && unit_of_[rank] == kNone) {
      ranks.push_back(rank);
    }
  }
  if (!ranks.empty()) {
    Advance(Restore(variant.class_index, variant.lane, activation.variant, activation.checkpoint,
                    std::move(ranks)));
  }
}

// A unit as the baseline was at the checkpoint.
uint32_t Sweep::Restore(
    uint32_t c, uint32_t lane, uint32_t variant, uint32_t checkpoint, std::vector<uint32_t> ranks) {
  const auto index = static_cast<uint32_t>(units_.size());
  Unit& unit = units_.emplace_back();
  unit.class_index = c;
  unit.lane = lane;
  unit.variant = variant;
  unit.ranks = std::move(ranks);
  unit.times = job_.baseline.Restore(c, checkpoint, lane);
  unit.next_checkpoint = checkpoint + 1;
  unit.open.resize(PlanOf(c).streams.size());
  unit.among.resize(job_.partition.classes[c].comms.size(), Among::kUnknown);
  for (uint32_t rank : unit.ranks) {
    unit_of_[rank] = index;
  }
  const ClassSchedule& schedule = ScheduleOf(c);
  const Cut& cut = schedule.cuts[job_.baseline.of_class(c).checkpoints[checkpoint].cut];
  unit.position = cut.position;
  if (cut.position == 0) {
    unit.times.registers[schedule.first_register] = CostsOf(unit).delay_ns;
  }
  for (const auto& [stream, hold] : cut.holding) {
    OpenTransfers(index, hold, stream, unit.times.registers[stream]);
  }
  return index;
}

// A unit of ranks that have followed the baseline until the meeting that is being settled.
uint32_t Sweep::Wake(const Outcome& outcome, std::vector<uint32_t> ranks) {
  const ClassSchedule& schedule = ScheduleOf(outcome.class_index);
  const auto& checkpoints = job_.baseline.of_class(outcome.class_index).checkpoints;
  const auto after = std::partition_point(
      checkpoints.begin(), checkpoints.end(),
      [&](const Checkpoint& c) { return schedule.cuts[c.cut].settled <= settling_; });
  const auto checkpoint = static_cast<uint32_t>(after - checkpoints.begin()) - 1;
  reached_ += outcome.variant == kNone ? std::ssize(ranks) : 0;
  const uint32_t unit =
      Restore(outcome.class_index, outcome.lane, outcome.variant, checkpoint, std::move(ranks));
  Advance(unit);
  return unit;
}

// Some ranks of a unit continue as a separate unit.
uint32_t Sweep::Split(uint32_t from, std::vector<uint32_t> ranks) {
  const auto index = static_cast<uint32_t>(units_.size());
  units_.push_back(units_[from]);
  Unit& unit = units_.back();
  std::vector<uint32_t>& left = units_[from].ranks;
  for (uint32_t rank : ranks) {
    unit_of_[rank] = index;
    left.erase(std::lower_bound(left.begin(), left.end(), rank));
  }
  unit.ranks = std::move(ranks);
  unit.among.assign(unit.among.size(), Among::kUnknown);
  units_[from].among = unit.among;
  const std::vector<ScheduledTransfer>& transfers = ScheduleOf(unit.class_index).transfers;
  for (const OpenHold& open : unit.open) {
    if (open.hold == kNone || open.waiting == 0) {
      continue;
    }
    const ScheduledHold& hold = ScheduleOf(unit.class_index).holds[open.hold];
    for (uint32_t t = hold.begin; t < hold.end; ++t) {
      if (transfers[t].side != TransferSide::kEagerSend && transfers[t].meeting > settling_ &&
          std::find(open.among.begin(), open.among.end(), t) == open.among.end()) {
        Pend(transfers[t].meeting, index, t);
      }
    }
  }
  for (const EagerSend& sent : unit.sent) {
    if (transfers[sent.transfer].meeting > settling_) {
      Pend(transfers[sent.transfer].meeting, index, sent.transfer);
    }
  }
  return index;
}

void Sweep::Pend(uint32_t meeting, uint32_t unit, uint32_t transfer) {
  if (waiting_[meeting].empty()) {
    meetings_.push(meeting);
  }
  waiting_[meeting].push_back({unit, transfer});
}

void Sweep::OpenTransfers(uint32_t index, uint32_t hold, uint16_t stream, TimeNs arrival) {
  Unit& unit = units_[index];
  const ClassSchedule& schedule = ScheduleOf(unit.class_index);
  OpenHold& open = unit.open[stream];
  open.hold = hold;
  open.waiting = 0;
  const bool other = unit.variant != kNone && (*variants_)[unit.variant].other_transfers;
  const std::vector<uint32_t>* changed = other ? &(*variants_)[unit.variant].changed : nullptr;
  open.differs =
      other && std::binary_search(changed->begin(), changed->end(), schedule.holds[hold].arrive);
  open.times.arrival = arrival;
  open.times.start = arrival;
  open.times.end = arrival;
  open.times.transfers.clear();
  open.among.clear();
  const bool moved = arrival != job_.baseline.Arrival(unit.class_index, hold, unit.lane);
  const TransferCosts& costs = *CostsOf(unit).transfers;
  for (uint32_t t = schedule.holds[hold].begin; t < schedule.holds[hold].end; ++t) {
    const ScheduledTransfer& transfer = schedule.transfers[t];
    if (transfer.side == TransferSide::kEagerSend) {
      const DurationNs own = costs.post_ns[transfer.index];
      open.times.Add({arrival, arrival + own});
      if (transfer.meeting >= floor_ && transfer.meeting != settling_ && (moved || other)) {
        open.differs = true;
        unit.sent.push_back({t, arrival});
        Pend(transfer.meeting, index, t);
      }
    } else if (transfer.meeting < floor_) {
      open.times.Add(job_.baseline.TransferOf(unit.class_index, t, unit.lane));
    } else if (IsAmongThemselves(&unit, transfer)) {
      open.times.Add({arrival, arrival + costs.call_ns[transfer.index]});
      open.among.push_back(t);
      open.differs = open.differs || moved;
    } else {
      ++open.waiting;
      if (transfer.meeting == settling_) {
        open.differs = true;  // nobody else is woken; it is about to be notified
      } else {
        Pend(transfer.meeting, index, t);
      }
    }
  }
}

bool Sweep::IsAmongThemselves(Unit* unit, const ScheduledTransfer& transfer) {
  if (transfer.side != TransferSide::kCollective) {
    return false;
  }
  Among& among = unit->among[transfer.comm_slot];
  if (among == Among::kUnknown) {
    among = HoldsAllMembers(*unit, transfer.comm_slot) ? Among::kThemselves : Among::kOthers;
  }
  return among == Among::kThemselves;
}

// A rank that represents its lane represents all members of its communicators if no other lane has
// any.
bool Sweep::HoldsAllMembers(const Unit& unit, uint16_t slot) const {
  const CommEntry& entry = job_.partition.classes[unit.class_index].comms[slot];
  if (job_.partition.comm_classes[entry.comm_class].entry_count > 1) {
    return false;
  }
  if (whole_lanes_) {
    return std::count(entry.instance_of.begin(), entry.instance_of.end(),
                      entry.instance_of[unit.lane]) == 1;
  }
  const uint32_t index = unit_of_[unit.ranks.front()];
  return std::all_of(unit.ranks.begin(), unit.ranks.end(), [&](uint32_t rank) {
    const auto members =
        job_.graph.communicators.members_of(CommId(job_.graph.ranks.comms(Rank(rank))[slot]));
    return std::all_of(members.begin(), members.end(),
                       [&](uint32_t member) { return unit_of_[member] == index; });
  });
}

// Runs until the unit has to wait for a meeting, is dissolved or ends.
void Sweep::Advance(uint32_t index) {
  Unit& unit = units_[index];
  const uint32_t c = unit.class_index;
  const ClassSchedule& schedule = ScheduleOf(c);
  const LaneRun& run = job_.baseline.run(c);
  const LaneCosts& costs = CostsOf(unit);
  const ClassBaseline& before = job_.baseline.of_class(c);
  const auto next_cut = [&] {
    return unit.next_checkpoint < before.checkpoints.size()
               ? &schedule.cuts[before.checkpoints[unit.next_checkpoint].cut]
               : nullptr;
  };
  const Cut* cut = next_cut();
  while (unit.position < schedule.actions.size()) {
    if (cut != nullptr && cut->position == unit.position) {
      run.Count(*cut, &unit.times);
      if (Dissolve(&unit, unit.next_checkpoint)) {
        return;
      }
      ++unit.next_checkpoint;
      cut = next_cut();
    }
    const ScheduledAction& scheduled = schedule.actions[unit.position];
    if (scheduled.action.kind == ActionKind::kFinish) {
      OpenHold& open = unit.open[scheduled.action.stream];
      if (open.waiting > 0) {
        return;
      }
      run.Finish(scheduled, open.times, costs, &unit.times);
      open.hold = kNone;
    } else if (scheduled.action.kind == ActionKind::kArrive) {
      const TimeNs arrival = run.Arrive(scheduled, costs, &unit.times);
      OpenTransfers(index, scheduled.hold, scheduled.action.stream, arrival);
    } else {
      run.Execute(scheduled, costs, &unit.times);
    }
    ++unit.position;
    ++executed_;
  }
  // The unit stays: the receivers of its last sends may not have arrived.
  run.End(costs, &unit.times);
  AddTotals(unit, before.ends[unit.lane]);
}

bool Sweep::SameAsBefore(const Unit& unit, uint32_t index) const {
  const ClassBaseline& before = job_.baseline.of_class(unit.class_index);
  const Checkpoint& checkpoint = before.checkpoints[index];
  const ClassSchedule& schedule = ScheduleOf(unit.class_index);
  const auto kept = checkpoint.registers.begin() +
                    static_cast<std::ptrdiff_t>(unit.lane * schedule.register_count);
  if (!std::equal(unit.times.registers.begin(), unit.times.registers.end(), kept)) {
    return false;
  }
  const size_t last = unit.times.starts.size() - 2;
  const TimeNs start = unit.times.starts[last];
  if (start != LaneTimes::kUnknown && start != before.ends[unit.lane].starts[last]) {
    return false;
  }
  if (!unit.times.activity.SamePending(checkpoint.activity[unit.lane])) {
    return false;
  }
  for (const EagerSend& sent : unit.sent) {
    if (schedule.transfers[sent.transfer].meeting >= floor_) {
      return false;
    }
  }
  return std::none_of(unit.open.begin(), unit.open.end(),
                      [](const OpenHold& open) { return open.hold != kNone && open.differs; });
}

// Returns the unit's ranks to the baseline if their state equals it.
bool Sweep::Dissolve(Unit* unit, uint32_t index) {
  if (!SameAsBefore(*unit, index)) {
    return false;
  }
  const ClassBaseline& before = job_.baseline.of_class(unit->class_index);
  const ClassSchedule& schedule = ScheduleOf(unit->class_index);
  const uint32_t position = schedule.cuts[before.checkpoints[index].cut].position;
  if (unit->variant != kNone) {
    const uint32_t next = index + 1 < before.checkpoints.size()
                              ? schedule.cuts[before.checkpoints[index + 1].cut].position
                              : static_cast<uint32_t>(schedule.actions.size());
    const std::vector<uint32_t>& changed = (*variants_)[unit->variant].changed;
    const auto due = std::lower_bound(changed.begin(), changed.end(), position);
    if (due != changed.end() && *due < next) {
      return false;
    }
  }
  AddTotals(*unit, job_.baseline.Restore(unit->class_index, index, unit->lane));
  unit->alive = false;
  for (uint32_t rank : unit->ranks) {
    unit_of_[rank] = kNone;
  }
  unit->ranks.clear();
  if (unit->variant != kNone) {
    ScheduleActivation(unit->variant, position);
  }
  return true;
}

// Adds what the unit's ranks accumulated, beyond what the baseline had at the same place.
void Sweep::AddTotals(const Unit& unit, const LaneTimes& before) {
  const LaneTimes& now = unit.times;
  const LaneTimes& end = job_.baseline.of_class(unit.class_index).ends[unit.lane];
  if (now.starts == before.starts && now.activity.covered() == before.activity.covered() &&
      now.transfer_ns == before.transfer_ns && now.wait_ns == before.wait_ns) {
    return;
  }
  for (uint32_t rank : unit.ranks) {
    uint32_t& index = totals_of_[rank];
    if (index == kNone) {
      index = static_cast<uint32_t>(totals_.size());
      totals_.push_back(
          {rank, whole_lanes_, end.starts, end.activity.covered(), end.transfer_ns, end.wait_ns});
    }
    RankTotals& totals = totals_[index];
    const auto add = [](const auto& after, const auto& earlier, auto* to) {
      for (size_t i = 0; i < to->size(); ++i) {
        (*to)[i] += after[i] - earlier[i];
      }
    };
    add(now.starts, before.starts, &totals.starts);
    add(now.activity.covered(), before.activity.covered(), &totals.covered);
    add(now.transfer_ns, before.transfer_ns, &totals.transfer_ns);
    add(now.wait_ns, before.wait_ns, &totals.wait_ns);
  }
}

}  // namespace prism::replayer
