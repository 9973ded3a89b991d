#include "replayer/delta/baseline.h"

#include <algorithm>
#include <utility>

namespace prism::replayer {
TimeRange MessageRange(
    TransferSide side, bool eager, TimeNs sent, TimeNs received, DurationNs transfer_ns) {
  if (side == TransferSide::kEagerSend) {
    return {sent, sent + transfer_ns};
  }
  const TimeNs both = std::max(sent, received);
  // Eager: the bytes were on their way before the receiver arrived.
  return {both, eager ? std::max(received, sent + transfer_ns) : both + transfer_ns};
}

Baseline::Baseline(const BaselineSource& source, uint32_t holds_per_checkpoint)
    : partition_(source.partition),
      job_(source.job),
      options_(source.options),
      holds_per_checkpoint_(holds_per_checkpoint),
      classes_(job_.classes.size()) {
  CostClasses(source);
  CostMeetings();
  const auto count = static_cast<uint32_t>(classes_.size());
  position_.assign(count, 0);
  next_cut_.assign(count, 0);
  for (uint32_t c = 0; c < count; ++c) {
    runs_.emplace_back(partition_, job_, options_, c);
    std::vector<LaneTimes>& lanes = now_.emplace_back();
    for (const LaneCosts& costs : classes_[c].costs) {
      lanes.push_back(runs_[c].Begin(costs));
    }
    classes_[c].arrivals.resize(job_.classes[c].holds.size() * lanes.size());
    KeepCheckpoint(c, 0);
  }
  for (const Turn& turn : job_.turns) {
    RunTurn(turn);
  }
  for (uint32_t c = 0; c < count; ++c) {
    for (uint32_t lane = 0; lane < lane_count(c); ++lane) {
      runs_[c].End(classes_[c].costs[lane], &now_[c][lane]);
    }
    classes_[c].ends = std::move(now_[c]);
  }
  now_.clear();
}

void Baseline::CostClasses(const BaselineSource& source) {
  for (uint32_t c = 0; c < classes_.size(); ++c) {
    const RankClass& rank_class = partition_.classes[c];
    ClassBaseline& of_class = classes_[c];
    const RolePlan& plan = partition_.plans[rank_class.groups.front().plan];
    of_class.transfers =
        CostTransfers(plan, WiringOf(partition_, c), source.cost, options_.comm_scale);
    of_class.charges.reserve(rank_class.groups.size());
    for (const LaneGroup& group : rank_class.groups) {
      const RolePlan& own = partition_.plans[group.plan];
      of_class.charges.push_back(CostCharges(own.charge_sources, own.charge_count,
                                             of_class.transfers.transfer_ns,
                                             source.overlap_slowdown));
      for (uint32_t lane = group.begin; lane < group.end; ++lane) {
        LaneCosts& costs = of_class.costs.emplace_back();
        costs.plan = &partition_.plans[group.plan];
        costs.transfers = &of_class.transfers;
        costs.charges = &of_class.charges.back();
        costs.delay_ns = rank_class.delay_ns[lane];
        costs.rank = rank_class.lanes[lane];
      }
    }
  }
}

void Baseline::CostMeetings() {
  size_t rows = 0;
  for (const Meeting& meeting : job_.meetings) {
    first_latest_.push_back(rows);
    DurationNs transfer_ns = 0;
    if (meeting.comm_class != kNone) {
      rows += partition_.comm_classes[meeting.comm_class].instances;
      for (const Party& party : job_.parties_of(meeting)) {
        const ScheduledTransfer& transfer =
            job_.classes[party.class_index].transfers[party.transfer];
        transfer_ns =
            std::max(transfer_ns, classes_[party.class_index].transfers.call_ns[transfer.index]);
      }
    } else {
      const auto parties = job_.parties_of(meeting);
      const auto post_ns = [&](const Party& party) {
        return classes_[party.class_index]
            .transfers.post_ns[job_.classes[party.class_index].transfers[party.transfer].index];
      };
      const RankClass& sender = partition_.classes[parties[0].class_index];
      const PeerPost& post =
          partition_.plans[sender.groups.front().plan]
              .posts[job_.classes[parties[0].class_index].transfers[parties[0].transfer].index];
      transfer_ns = post.fixed_ns >= 0 ? post_ns(parties[0])
                                       : std::max(post_ns(parties[0]), post_ns(parties[1]));
    }
    transfer_ns_.push_back(transfer_ns);
  }
  latest_.assign(rows, 0);
}

TimeRange Baseline::TransferOf(uint32_t c, uint32_t transfer, uint32_t lane) const {
  const ScheduledTransfer& scheduled = job_.classes[c].transfers[transfer];
  const RankClass& rank_class = partition_.classes[c];
  const RolePlan& plan = partition_.plans[rank_class.groups.front().plan];
  const TimeNs arrival = Arrival(c, scheduled.hold, lane);
  if (scheduled.side == TransferSide::kCollective) {
    const CommEntry& entry = rank_class.comms[plan.calls[scheduled.index].comm_slot];
    const TimeNs begin = Latest(scheduled.meeting, entry.instance_of[lane]);
    return {begin, begin + TransferNs(scheduled.meeting)};
  }
  if (scheduled.side == TransferSide::kEagerSend) {
    // As the sender sees it, before anything is known about its receiver.
    return {arrival, arrival + classes_[c].transfers.post_ns[scheduled.index]};
  }
  const auto parties = job_.parties_of(job_.meetings[scheduled.meeting]);
  const bool receives = scheduled.side == TransferSide::kReceive;
  const Party& other = parties[receives ? 0 : 1];
  const ScheduledTransfer& opposite = job_.classes[other.class_index].transfers[other.transfer];
  const uint32_t endpoint = plan.posts[scheduled.index].endpoint;
  const uint32_t peer_lane = rank_class.channels[endpoint].peer_lane[lane];
  const TimeNs met = Arrival(other.class_index, opposite.hold, peer_lane);
  const bool eager = opposite.side == TransferSide::kEagerSend;
  return MessageRange(scheduled.side, eager, receives ? met : arrival, receives ? arrival : met,
                      TransferNs(scheduled.meeting));
}

void Baseline::FinishHold(uint32_t c, uint32_t action, uint32_t lane) {
  const ScheduledAction& scheduled = job_.classes[c].actions[action];
  const ScheduledHold& hold = job_.classes[c].holds[scheduled.hold];
  HoldTimes times(Arrival(c, scheduled.hold, lane));
  for (uint32_t t = hold.begin; t < hold.end; ++t) {
    times.Add(TransferOf(c, t, lane));
  }
  runs_[c].Finish(scheduled, times, classes_[c].costs[lane], &now_[c][lane]);
}

// Actions [begin, end) of one lane; only the first may be a kFinish.
void Baseline::RunLane(uint32_t c, uint32_t begin, uint32_t end, uint32_t lane) {
  const ClassSchedule& schedule = job_.classes[c];
  const RankClass& rank_class = partition_.classes[c];
  const LaneCosts& costs = classes_[c].costs[lane];
  LaneTimes* times = &now_[c][lane];
  for (uint32_t i = begin; i < end; ++i) {
    const ScheduledAction& scheduled = schedule.actions[i];
    if (scheduled.action.kind == ActionKind::kFinish) {
      FinishHold(c, i, lane);
      continue;
    }
    if (scheduled.action.kind != ActionKind::kArrive) {
      runs_[c].Execute(scheduled, costs, times);
      continue;
    }
    const TimeNs arrival = runs_[c].Arrive(scheduled, costs, times);
    classes_[c].arrivals[size_t{scheduled.hold} * lane_count(c) + lane] = arrival;
    const ScheduledHold& hold = schedule.holds[scheduled.hold];
    for (uint32_t t = hold.begin; t < hold.end; ++t) {
      const ScheduledTransfer& transfer = schedule.transfers[t];
      if (transfer.side == TransferSide::kCollective) {
        const CommEntry& entry = rank_class.comms[costs.plan->calls[transfer.index].comm_slot];
        TimeNs& latest = latest_[first_latest_[transfer.meeting] + entry.instance_of[lane]];
        latest = std::max(latest, arrival);
      }
    }
  }
}

void Baseline::RunTurn(const Turn& turn) {
  const uint32_t c = turn.class_index;
  const ClassSchedule& schedule = job_.classes[c];
  while (position_[c] < turn.end) {
    // Lanes of the class may wait for each other, so all run up to the next kFinish first.
    const uint32_t begin = position_[c];
    uint32_t end = begin + 1;
    while (end < turn.end && schedule.actions[end].action.kind != ActionKind::kFinish) {
      ++end;
    }
    for (uint32_t lane = 0; lane < lane_count(c); ++lane) {
      RunLane(c, begin, end, lane);
    }
    position_[c] = end;
  }
  uint32_t& cut = next_cut_[c];
  while (cut < schedule.cuts.size() && schedule.cuts[cut].position < turn.end) {
    ++cut;
  }
  if (cut == schedule.cuts.size() || schedule.cuts[cut].position != turn.end || turn.end == 0) {
    return;
  }
  const uint32_t last = schedule.cuts[classes_[c].checkpoints.back().cut].position;
  const auto arrived = [&](uint32_t position) {
    return std::partition_point(schedule.holds.begin(), schedule.holds.end(),
                                [&](const ScheduledHold& hold) { return hold.arrive < position; }) -
           schedule.holds.begin();
  };
  if (arrived(turn.end) - arrived(last) >= holds_per_checkpoint_) {
    for (LaneTimes& lane : now_[c]) {
      runs_[c].Count(schedule.cuts[cut], &lane);
    }
    KeepCheckpoint(c, cut);
  }
}

void Baseline::KeepCheckpoint(uint32_t c, uint32_t cut) {
  Checkpoint& checkpoint = classes_[c].checkpoints.emplace_back();
  checkpoint.cut = cut;
  for (const LaneTimes& lane : now_[c]) {
    checkpoint.registers.insert(checkpoint.registers.end(), lane.registers.begin(),
                                lane.registers.end());
    checkpoint.traffic.insert(checkpoint.traffic.end(), lane.transfer_ns.begin(),
                              lane.transfer_ns.end());
    checkpoint.traffic.insert(checkpoint.traffic.end(), lane.wait_ns.begin(), lane.wait_ns.end());
    checkpoint.activity.push_back(lane.activity);
  }
}

LaneTimes Baseline::Restore(uint32_t c, uint32_t checkpoint, uint32_t lane) const {
  const ClassBaseline& of_class = classes_[c];
  const ClassSchedule& schedule = job_.classes[c];
  const Checkpoint& kept = of_class.checkpoints[checkpoint];
  const size_t slots = partition_.classes[c].comms.size();
  LaneTimes times;
  const auto registers =
      kept.registers.begin() + static_cast<std::ptrdiff_t>(lane * schedule.register_count);
  times.registers.assign(registers, registers + schedule.register_count);
  times.busy_since.assign(times.registers.begin(),
                          times.registers.begin() + static_cast<std::ptrdiff_t>(
                                                        of_class.costs[lane].plan->streams.size()));
  const auto traffic = kept.traffic.begin() + static_cast<std::ptrdiff_t>(lane * 2 * slots);
  const auto waits = traffic + static_cast<std::ptrdiff_t>(slots);
  times.transfer_ns.assign(traffic, waits);
  times.wait_ns.assign(waits, waits + static_cast<std::ptrdiff_t>(slots));
  times.activity = kept.activity[lane];
  times.starts = of_class.ends[lane].starts;
  const uint32_t position = schedule.cuts[kept.cut].position;
  for (size_t i = 0; i < times.starts.size(); ++i) {
    if (i >= schedule.starts.size() || schedule.starts[i] >= position) {
      times.starts[i] = LaneTimes::kUnknown;
    }
  }
  return times;
}

}  // namespace prism::replayer
