#include "replayer/delta/lane_run.h"

#include <algorithm>
#include <limits>

#include "replayer/perturb/jitter.h"

namespace prism::replayer {

using graph::OpKind;

LaneRun::LaneRun(const Partition& partition,
                 const RecordedOrder& job,
                 const ReplayOptions& options,
                 uint32_t class_index)
    : partition_(partition),
      rank_class_(partition.classes[class_index]),
      schedule_(job.classes[class_index]),
      options_(options) {
}

LaneTimes LaneRun::Begin(const LaneCosts& costs) const {
  LaneTimes lane;
  lane.registers.assign(schedule_.register_count, 0);
  lane.registers[schedule_.first_register] = costs.delay_ns;
  lane.busy_since.assign(costs.plan->streams.size(), 0);
  lane.starts.assign(static_cast<size_t>(options_.iterations) + 1, LaneTimes::kUnknown);
  lane.transfer_ns.assign(rank_class_.comms.size(), 0);
  lane.wait_ns.assign(rank_class_.comms.size(), 0);
  return lane;
}

TimeNs LaneRun::IssueOf(const ScheduledAction& scheduled,
                        const Step& step,
                        const LaneCosts& costs,
                        const LaneTimes& lane) const {
  return lane.registers[scheduled.base] +
         scheduled.action.iteration * costs.plan->iteration_host_ns() + step.host_ns;
}

// The stream does not compute from its tail until then.
void LaneRun::Stand(const Action& action, TimeNs until, LaneTimes* lane) const {
  TimeNs& tail = lane->registers[action.stream];
  TimeNs& since = lane->busy_since[action.stream];
  if (Collects(action) && since < tail) {
    lane->activity.Add(ActivityKind::kCompute, {since, tail});
  }
  tail = until;
  since = until;
}

void LaneRun::Execute(const ScheduledAction& scheduled,
                      const LaneCosts& costs,
                      LaneTimes* lane) const {
  const Action& action = scheduled.action;
  if (action.kind == ActionKind::kHostWait) {
    WaitOfHost(scheduled, costs, lane);
    return;
  }
  if (action.kind == ActionKind::kWork) {
    Work(scheduled, costs, lane);
    return;
  }
  const Step& step = costs.plan->streams[action.stream][action.first];
  const TimeNs issue = IssueOf(scheduled, step, costs, *lane);
  TimeNs& tail = lane->registers[action.stream];
  if (action.kind == ActionKind::kStart) {
    lane->starts[static_cast<size_t>(action.iteration)] = std::max(tail, issue);
    return;
  }
  TimeNs begin = issue;
  if (scheduled.source != kNone) {
    begin = std::max(begin, lane->registers[scheduled.source]);
  }
  if (begin > tail) {
    Stand(action, begin, lane);
  }
  if (action.kind == ActionKind::kWait && step.charge != kNone) {
    tail += (*costs.charges)[step.charge];
  } else if (scheduled.target != kNone) {
    lane->registers[scheduled.target] = tail;
  }
  if (!Collects(action)) {
    lane->busy_since[action.stream] = tail;
  }
}

void LaneRun::Work(const ScheduledAction& scheduled,
                   const LaneCosts& costs,
                   LaneTimes* lane) const {
  const Action& action = scheduled.action;
  const std::vector<Step>& steps = costs.plan->streams[action.stream];
  const RunFold& fold = costs.plan->folds[action.stream];
  const Jitter& jitter = partition_.jitter;
  const bool noisy = jitter.any();
  const TimeNs base =
      lane->registers[scheduled.base] + action.iteration * costs.plan->iteration_host_ns();
  TimeNs& tail = lane->registers[action.stream];
  auto patch = costs.patches.empty() ? costs.patches.end()
                                     : std::lower_bound(costs.patches.begin(), costs.patches.end(),
                                                        StepPatch{action.stream, action.first, 0});
  for (uint32_t i = action.first; i < action.end;) {
    const bool patched =
        patch != costs.patches.end() && patch->stream == action.stream && patch->step < action.end;
    const uint32_t until =
        std::min({fold.run_end[i], action.end, patched ? patch->step : action.end});
    const bool whole = steps[i].compute && !noisy && until > i;
    if (whole && tail - fold.before[i] - base >= fold.lead[i]) {
      tail += fold.before[until] - fold.before[i];
      i = until;
      continue;
    }
    const Step& step = steps[i];
    DurationNs duration = step.duration;
    if (patched && patch->step == i) {
      duration = patch->duration_ns;
      ++patch;
    }
    if (step.compute && noisy) {
      duration = Jittered(duration, jitter, {options_.seed, costs.rank, action.iteration, step.op});
    }
    const TimeNs begin = std::max(tail, base + step.host_ns);
    if (begin > tail || !step.compute) {
      Stand(action, begin, lane);
    }
    tail += duration;
    if (!step.compute) {
      lane->busy_since[action.stream] = tail;
    }
    ++i;
  }
  if (!Collects(action)) {
    lane->busy_since[action.stream] = tail;
  }
}

void LaneRun::WaitOfHost(const ScheduledAction& scheduled,
                         const LaneCosts& costs,
                         LaneTimes* lane) const {
  const RolePlan& plan = *costs.plan;
  const HostWait& wait = plan.host_waits[scheduled.action.first];
  TimeNs over = 0;
  if (wait.kind == OpKind::kEventSync) {
    over = lane->registers[scheduled.source];
  }
  for (uint16_t stream = 0; stream < plan.streams.size() && wait.kind != OpKind::kEventSync;
       ++stream) {
    if (wait.kind == OpKind::kDeviceSync || wait.stream == stream) {
      over = std::max(over, lane->registers[stream]);
    }
  }
  const DurationNs host =
      scheduled.action.iteration * plan.iteration_host_ns() + plan.host_ns[wait.op];
  const DurationNs charge = wait.charge == kNone ? 0 : (*costs.charges)[wait.charge];
  lane->registers[scheduled.target] =
      std::max(lane->registers[scheduled.base], over - host) + charge;
}

TimeNs LaneRun::Arrive(const ScheduledAction& scheduled,
                       const LaneCosts& costs,
                       LaneTimes* lane) const {
  const Action& action = scheduled.action;
  const Step& step = costs.plan->streams[action.stream][action.first];
  const TimeNs arrival =
      std::max(lane->registers[action.stream], IssueOf(scheduled, step, costs, *lane));
  Stand(action, arrival, lane);
  return arrival;
}

void LaneRun::Finish(const ScheduledAction& scheduled,
                     const HoldTimes& hold,
                     const LaneCosts& costs,
                     LaneTimes* lane) const {
  const Action& action = scheduled.action;
  const Step& step = costs.plan->streams[action.stream][action.first];
  Stand(action, hold.end, lane);
  if (Collects(action)) {
    for (const TimeRange& transfer : hold.transfers) {
      lane->activity.Add(ActivityKind::kTransfer, transfer);
    }
    if (hold.start > hold.arrival && WaitsForStage(partition_, rank_class_, *costs.plan, step)) {
      lane->activity.Add(ActivityKind::kPeerWait, {hold.arrival, hold.start});
    }
  }
  if (action.iteration + 1 == options_.iterations) {
    CountTraffic(step, hold, costs, lane);
  }
}

void LaneRun::CountTraffic(const Step& step,
                           const HoldTimes& hold,
                           const LaneCosts& costs,
                           LaneTimes* lane) const {
  const RolePlan& plan = *costs.plan;
  uint16_t first = graph::kNoSlot;
  if (step.kind == StepKind::kCollective) {
    for (uint32_t c = step.aux; c != kNone; c = plan.calls[c].next_in_group) {
      lane->transfer_ns[plan.calls[c].comm_slot] +=
          costs.transfers->transfer_ns[plan.calls[c].transfer];
    }
    first = plan.calls[step.aux].comm_slot;
  } else if (const PeerPosts posts = plan.groups[step.aux]; posts.begin < posts.end) {
    first = plan.endpoints[plan.posts[posts.begin].endpoint].comm_slot;
    lane->transfer_ns[first] += hold.end - hold.start;
  }
  if (first != graph::kNoSlot) {
    lane->wait_ns[first] += hold.start - hold.arrival;
  }
}

void LaneRun::Count(const Cut& cut, LaneTimes* lane) const {
  TimeNs until = std::numeric_limits<TimeNs>::max();
  for (const auto& [stream, hold] : cut.holding) {
    until = std::min(until, lane->registers[stream]);
  }
  const RolePlan& plan = partition_.plans[rank_class_.groups.front().plan];
  for (uint16_t stream = 0; stream < plan.streams.size(); ++stream) {
    if (stream == plan.first_stream ||
        (!plan.streams[stream].empty() && plan.streams[stream].front().op < plan.ahead)) {
      until = std::min(until, lane->registers[stream]);
    }
  }
  for (uint16_t stream = 0; stream < lane->busy_since.size(); ++stream) {
    TimeNs& since = lane->busy_since[stream];
    if (options_.breakdown && since < lane->registers[stream]) {
      lane->activity.Add(ActivityKind::kCompute, {since, lane->registers[stream]});
    }
    since = lane->registers[stream];
  }
  const TimeNs start = lane->starts[static_cast<size_t>(options_.iterations) - 1];
  const TimeNs begin = start == LaneTimes::kUnknown ? until : std::min(start, until);
  lane->activity.Count({begin, until});
}

void LaneRun::End(const LaneCosts& costs, LaneTimes* lane) const {
  const RolePlan& plan = *costs.plan;
  const auto count = static_cast<size_t>(options_.iterations);
  if (plan.first_op == kNone) {
    for (size_t i = 0; i <= count; ++i) {
      lane->starts[i] = lane->registers[schedule_.start_registers[i]] +
                        static_cast<int64_t>(i) * plan.iteration_host_ns();
    }
  } else {
    lane->starts[count] =
        plan.NextStart(options_.iterations, lane->registers[schedule_.last_register],
                       lane->registers[plan.first_stream]);
  }
  for (uint16_t stream = 0; stream < lane->busy_since.size(); ++stream) {
    if (options_.breakdown && lane->busy_since[stream] < lane->registers[stream]) {
      lane->activity.Add(ActivityKind::kCompute,
                         {lane->busy_since[stream], lane->registers[stream]});
    }
  }
  lane->activity.Count({lane->starts[count - 1], lane->starts[count]});
}

}  // namespace prism::replayer
