#include "replayer/engine/op_traces.h"

#include <algorithm>
#include <utility>

namespace prism::replayer {

using graph::OpKind;

OpTraces::OpTraces(const RolePlan& plan, const RankClass& rank_class, Extent extent)
    : plan_(plan), lanes_(std::move(extent.lanes)) {
  const size_t whole = static_cast<size_t>(extent.iterations) * plan.size();
  const size_t ops = whole + plan.ahead;
  const std::vector<TimeNs> unknown(ops, kUnknown);
  for (const uint32_t lane : lanes_) {
    timelines_.push_back(
        {rank_class.lanes[lane], whole, unknown, unknown, unknown, unknown, {}, {}});
    if (extent.decisive) {
      timelines_.back().decisive.assign(ops, kNone);
      timelines_.back().last.assign(ops, kNone);
    }
  }
}

void OpTraces::IssueOps(OpPosition begin, OpPosition end, const std::vector<TimeNs>& base) {
  for (size_t t = 0; t < timelines_.size(); ++t) {
    for (OpPosition position = begin; position < end; ++position) {
      const auto op = static_cast<size_t>(position % plan_.size());
      const OpKind kind = plan_.program->kind[op];
      const TimeNs time = base[lanes_[t]] + plan_.HostNsUntil(position);
      const auto index = static_cast<size_t>(position);
      timelines_[t].issue[index] = time;
      if (kind == OpKind::kHostGap) {
        timelines_[t].start[index] = time - plan_.program->value[op];
        timelines_[t].end[index] = time;
      } else if (kind == OpKind::kMarker || kind == OpKind::kSegmentAlloc ||
                 kind == OpKind::kSegmentFree || kind == OpKind::kEventSync) {
        timelines_[t].start[index] = time;
        timelines_[t].end[index] = time;
      }
    }
  }
}

void OpTraces::WaitAt(OpPosition position,
                      const std::vector<TimeNs>& before,
                      const std::vector<TimeNs>& after) {
  const DurationNs host = plan_.HostNsUntil(position);
  const auto index = static_cast<size_t>(position);
  for (size_t t = 0; t < timelines_.size(); ++t) {
    timelines_[t].issue[index] = before[lanes_[t]] + host;
    timelines_[t].start[index] = before[lanes_[t]] + host;
    timelines_[t].end[index] = after[lanes_[t]] + host;
  }
}

// Calls `enter` with the index into a Timeline of each op of the step.
template <typename Enter>
void OpTraces::ForEachOp(int32_t iteration, const Step& step, const Enter& enter) const {
  const OpPosition origin = OpPosition{iteration} * plan_.size();
  if (step.kind != StepKind::kCollective) {
    enter(static_cast<size_t>(origin + step.op));
    return;
  }
  for (uint32_t c = step.aux; c != kNone; c = plan_.calls[c].next_in_group) {
    enter(static_cast<size_t>(origin + plan_.calls[c].op));
  }
}

void OpTraces::Begin(int32_t iteration,
                     const Step& step,
                     const IssueTimes& issue,
                     const std::vector<TimeNs>& tail) {
  for (size_t t = 0; t < timelines_.size(); ++t) {
    const TimeNs issued = issue.of(lanes_[t]);
    const TimeNs start = std::max(issued, tail[lanes_[t]]);
    ForEachOp(iteration, step, [&](size_t index) {
      timelines_[t].issue[index] = issued;
      timelines_[t].start[index] = start;
    });
  }
}

void OpTraces::End(int32_t iteration, const Step& step, const std::vector<TimeNs>& tail) {
  for (size_t t = 0; t < timelines_.size(); ++t) {
    const TimeNs end = tail[lanes_[t]];
    ForEachOp(iteration, step, [&](size_t index) { timelines_[t].end[index] = end; });
  }
}

void OpTraces::EndOfHold(int32_t iteration, const Step& step, const Hold& hold) {
  for (size_t t = 0; t < timelines_.size(); ++t) {
    Timeline& timeline = timelines_[t];
    const uint32_t lane = lanes_[t];
    ForEachOp(iteration, step, [&](size_t index) {
      timeline.transfer_start[index] = hold.start[lane];
      timeline.end[index] = hold.end[lane];
      if (!timeline.decisive.empty()) {
        timeline.decisive[index] = hold.decisive[lane];
        timeline.last[index] = hold.last[lane];
      }
    });
  }
}

TimeNs OpTraces::EndTime(OpPosition position) const {
  return timelines_.front().end[static_cast<size_t>(position)];
}

const Timeline& OpTraces::Of(uint32_t lane) const {
  const auto found = std::ranges::find(lanes_, lane);
  return timelines_[static_cast<size_t>(found - lanes_.begin())];
}

}  // namespace prism::replayer
