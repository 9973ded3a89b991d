// How a StageRun moves over the windows that it does not run (steady_cut.h).
#include "replayer/stages/stage_run.h"

namespace prism::replayer {

// Notes where the host and the streams of the lane stand at every cut in front of `instruction`,
// and moves them on at the one that is lengthened. False while the lane has to wait: for the host,
// or, there, for lane 0.
bool StageRun::CrossCuts(size_t s, uint32_t lane, uint32_t instruction) {
  const StageLanes& lanes = plan_.stages[s];
  const SteadyCut& cut = longer_->cuts[s];
  Stage& stage = stages_[s];
  Crossing& crossing = stage.crossing;
  for (size_t& next = crossing.passed[lane]; next < cut.at.size() && cut.at[next] <= instruction;
       ++next) {
    if (lane == 0) {
      const uint32_t epoch = lanes.instructions[cut.at[next]].epoch;
      if (epoch >= stage.bases.size()) {
        return false;
      }
      crossing.host[next] = HostAt(s, cut.at[next], epoch);
      if (next == kCut) {
        crossing.host_shift_ns = longer_->windows * (crossing.host[kCut] - crossing.host[kCut - 1]);
      }
    } else if (next == kCut && crossing.passed[0] <= kCut) {
      return false;
    }
    for (uint16_t stream = 0; stream < graph::kStageStreamCount; ++stream) {
      if (lanes.lane_of_stream[stream] == lane) {
        crossing.tails[next][stream] = stage.tails[stream];
      }
    }
    if (next == kCut) {
      MoveOn(s, lane);
    }
  }
  return true;
}

void StageRun::MoveOn(size_t s, uint32_t lane) {
  Stage& stage = stages_[s];
  const auto& tails = stage.crossing.tails;
  for (uint16_t stream = 0; stream < graph::kStageStreamCount; ++stream) {
    if (plan_.stages[s].lane_of_stream[stream] == lane) {
      stage.tails[stream] += longer_->windows * (tails[kCut][stream] - tails[kCut - 1][stream]);
    }
  }
}

TimeNs StageRun::EventAt(size_t s, uint32_t event, uint32_t waiting) const {
  const std::vector<TimeNs>& events = stages_[s].events;
  if (longer_ == nullptr || events[event] == kUnknown || !longer_->cuts[s].IsBehind(waiting)) {
    return events[event];
  }
  const uint32_t earlier = longer_->cuts[s].earlier_event[event];
  return earlier == kNone ? events[event]
                          : events[event] + longer_->windows * (events[event] - events[earlier]);
}

// When the other end of a message arrives, as the end at instruction i of stage s sees it. Ends
// behind the cut are `windows` windows later than those in front of it.
TimeNs StageRun::PeerArrival(size_t s, uint32_t i, const StagePost& post) const {
  const std::vector<TimeNs>& arrivals = post.is_send ? received_ : sent_;
  const TimeNs arrival = arrivals[post.message];
  if (longer_ == nullptr || arrival == kUnknown || !longer_->messages[post.message].over_cut) {
    return arrival;
  }
  const uint32_t before = longer_->messages[post.message].earlier;
  if (longer_->cuts[s].IsBehind(i)) {
    return arrival + longer_->windows * (arrival - arrivals[before]);
  }
  const uint32_t first = longer_->messages[before].earlier;
  return arrival - longer_->windows * (arrivals[before] - arrivals[first]);
}

// Whether five values, the fourth behind the cut, move as the windows around it have to.
bool StageRun::IsLine(const std::array<TimeNs, kWindows>& values) const {
  const DurationNs rate = values[1] - values[0];
  return values[2] - values[1] == rate && values[3] - values[2] == (longer_->windows + 1) * rate &&
         values[4] - values[3] == rate;
}

// Whether the iteration that has just been run may be lengthened.
bool StageRun::WindowsWereSteady() const {
  for (size_t s = 0; s < stages_.size(); ++s) {
    const Crossing& crossing = stages_[s].crossing;
    std::array<TimeNs, kWindows> values = {};
    const auto is_line = [&](auto value) {
      for (size_t i = 0; i < kWindows; ++i) {
        values[i] = value(i + 1);
      }
      return IsLine(values);
    };
    if (!is_line([&](size_t i) { return crossing.host[i]; }) || !HandedOnSteadily(s)) {
      return false;
    }
    for (uint16_t stream = 0; stream < graph::kStageStreamCount; ++stream) {
      if (!is_line([&](size_t i) { return crossing.tails[i][stream]; })) {
        return false;
      }
    }
  }
  return true;
}

// Events and messages of one stage that a later window waits for. The other end of a message is a
// window on, so that of the third window is behind the cut.
bool StageRun::HandedOnSteadily(size_t s) const {
  const SteadyCut& cut = longer_->cuts[s];
  std::array<TimeNs, kWindows> values = {};
  std::array<TimeNs, kWindows> others = {};
  for (const HandedOn& handed : cut.handed_on) {
    for (uint32_t window = 0; window < kWindows; ++window) {
      const Instruction& same =
          plan_.stages[s].instructions[handed.instruction + window * cut.length()];
      if (handed.post == kNone) {
        values[window] = stages_[s].events[same.event];
        continue;
      }
      const StagePost& post = plan_.peer_groups[same.index].posts[handed.post];
      values[window] = (post.is_send ? sent_ : received_)[post.message];
      others[window] = (post.is_send ? received_ : sent_)[post.message];
    }
    const DurationNs rate = others[1] - others[0];
    if (!IsLine(values) || others[2] - others[1] != (longer_->windows + 1) * rate ||
        others[3] - others[2] != rate) {
      return false;
    }
  }
  return true;
}

}  // namespace prism::replayer
