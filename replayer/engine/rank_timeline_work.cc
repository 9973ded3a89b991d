// The part of RankTimeline that executes kernels and copies.
#include <algorithm>

#include "replayer/engine/rank_timeline.h"
#include "replayer/perturb/jitter.h"

namespace prism::replayer {

// The hot loop: a run of kernels and copies that the host has issued without waiting in between.
void RankTimeline::RunWork(StreamCursor* cursor, uint16_t stream) {
  const std::vector<Step>& steps = plan_.streams[stream];
  const OpPosition until =
      host_.EndOf(cursor->segment) - OpPosition{cursor->iteration} * plan_.size();
  const uint32_t first = cursor->next;
  // A run whose lanes wait for the host at one op may not wait at later ones.
  uint32_t try_at = cursor->next;
  uint32_t pause = 1;
  while (cursor->next < steps.size() && steps[cursor->next].kind == StepKind::kWork &&
         steps[cursor->next].op < until) {
    if (folds_ && cursor->next >= try_at) {
      if (FoldRun(cursor, stream, until)) {
        continue;
      }
      try_at = cursor->next + pause;
      pause *= 2;
    }
    const Step& step = steps[cursor->next];
    if (!traces_.empty()) {
      TraceBegin(*cursor, step, IssueOf(*cursor, step));
    }
    for (const LaneGroup& group : rank_class_.groups) {
      Work(cursor, config_.partition->plans[group.plan].streams[stream][cursor->next], group);
    }
    TraceEnd(*cursor, step);
    ++cursor->next;
  }
  NoteAction(ActionKind::kWork, *cursor, first);
}

// Executes what is left of the run of kernels at the cursor as one, unless activity is reported and
// some lane has a gap in it.
bool RankTimeline::FoldRun(StreamCursor* cursor, uint16_t stream, OpPosition until) {
  const std::vector<Step>& steps = plan_.streams[stream];
  const uint32_t next = cursor->next;
  const uint32_t end = plan_.folds[stream].run_end[next];
  if (end < next + 2 || steps[end - 1].op >= until) {
    return false;
  }
  const auto fold_of = [&](const LaneGroup& group) -> const RunFold& {
    return config_.partition->plans[group.plan].folds[stream];
  };
  const auto issue_of = [&](const LaneGroup& group) {
    IssueTimes issue = IssueOf(*cursor, steps[next]);
    issue.host_ns += fold_of(group).lead[next] + fold_of(group).before[next] - steps[next].host_ns;
    return issue;
  };
  for (const LaneGroup& group : rank_class_.groups) {
    if (cursor->lanes.WouldTellGap(group, issue_of(group))) {
      return false;
    }
  }
  for (const LaneGroup& group : rank_class_.groups) {
    cursor->lanes.Compute(group, issue_of(group),
                          fold_of(group).before[end] - fold_of(group).before[next]);
  }
  folded_ops_ += cursor->iteration < iterations_ ? int64_t{lanes_} * (end - next) : 0;
  cursor->next = end;
  return true;
}

void RankTimeline::Work(StreamCursor* cursor, const Step& step, const LaneGroup& lanes) const {
  const IssueTimes issue = IssueOf(*cursor, step);
  const bool noisy = step.compute && config_.partition->jitter.any();
  if (noisy || !rank_class_.interference.empty()) {
    PerturbedWork(cursor, step, lanes);
  } else if (step.compute) {
    cursor->lanes.Compute(lanes, issue, step.duration);
  } else {
    cursor->lanes.Copy(lanes, issue, step.duration);
  }
}

// Each lane has its own durations.
void RankTimeline::PerturbedWork(StreamCursor* cursor,
                                 const Step& step,
                                 const LaneGroup& lanes) const {
  const IssueTimes issue = IssueOf(*cursor, step);
  for (uint32_t lane = lanes.begin; lane < lanes.end; ++lane) {
    const JitterKey key = {config_.options->seed, rank_class_.lanes[lane], cursor->iteration,
                           step.op};
    DurationNs duration = step.compute && config_.partition->jitter.any()
                              ? Jittered(step.duration, config_.partition->jitter, key)
                              : step.duration;
    const TimeNs start = std::max(cursor->lanes.tail()[lane], issue.of(lane));
    duration = Interrupted(rank_class_.interference, start, duration);
    const LaneGroup one = {lane, lane + 1, lanes.plan};
    if (step.compute) {
      cursor->lanes.Compute(one, issue, duration);
    } else {
      cursor->lanes.Copy(one, issue, duration);
    }
  }
}

}  // namespace prism::replayer
