#include "replayer/stages/steady_loop.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace prism::replayer {
namespace {

// Whether the calls of rounds round - 1, round and round + 1 are the same.
bool RoundsAreAlike(const graph::StageProgram& stage, size_t round) {
  const auto begin = [&](size_t r) { return stage.calls.begin() + stage.rounds[r]; };
  for (size_t r = round - 1; r < round + 1; ++r) {
    if (!std::equal(begin(r), begin(r + 1), begin(r + 1), begin(r + 2))) {
      return false;
    }
  }
  return true;
}

// Rounds from 1 on that have two behind them, the last first.
std::optional<size_t> FindRound(const graph::JobProgram& job) {
  size_t known = std::numeric_limits<size_t>::max();
  for (const graph::StageProgram& stage : job.stages) {
    known = std::min(known, stage.rounds.size());
  }
  for (size_t round = known; round-- > 1;) {
    if (round + 2 < known &&
        std::all_of(job.stages.begin(), job.stages.end(), [&](const graph::StageProgram& stage) {
          return RoundsAreAlike(stage, round);
        })) {
      return round;
    }
  }
  return std::nullopt;
}

// The part of an ascending list of instructions that lies in `range`.
Range Within(const std::vector<uint32_t>& instructions, const Range& range) {
  const auto position = [&](uint32_t instruction) {
    return static_cast<uint32_t>(
        std::lower_bound(instructions.begin(), instructions.end(), instruction) -
        instructions.begin());
  };
  return {position(range.begin), position(range.end)};
}

uint32_t MarksBefore(const StageLanes& lanes, uint32_t instruction) {
  for (uint32_t i = instruction; i < lanes.instructions.size(); ++i) {
    if (lanes.instructions[i].mark != kNone) {
      return lanes.instructions[i].mark;
    }
  }
  return static_cast<uint32_t>(lanes.marks.size());
}

void FindEvents(const StageLanes& lanes, StageLoop* loop) {
  Range& events = loop->events;
  events = {kNone, kNone};
  const auto end = lanes.instructions.begin() + loop->next_end;
  for (auto i = lanes.instructions.begin() + loop->instructions.begin; i != end; ++i) {
    const bool behind = i - lanes.instructions.begin() >= loop->instructions.end;
    if (i->event == kNone) {
      continue;
    }
    if (i->kind == InstructionKind::kRecord && !behind) {
      events.begin = std::min(events.begin, i->event);
      events.end = i->event + 1;
    } else if (i->kind != InstructionKind::kRecord && behind && events.Contains(i->event)) {
      loop->handed_on.push_back(i->event);
    }
  }
  if (events.begin == kNone) {
    events = {};
  }
  std::sort(loop->handed_on.begin(), loop->handed_on.end());
  loop->handed_on.erase(std::unique(loop->handed_on.begin(), loop->handed_on.end()),
                        loop->handed_on.end());
}

// False where a round holds a collective over stages.
bool CountMessages(const StagePlan& plan,
                   const StageLanes& lanes,
                   StageLoop* loop,
                   SteadyLoop* all,
                   std::vector<uint32_t>* received) {
  for (uint32_t i = loop->instructions.begin; i < loop->instructions.end; ++i) {
    const Instruction& instruction = lanes.instructions[i];
    if (instruction.kind == InstructionKind::kMeeting) {
      return false;
    }
    if (instruction.kind != InstructionKind::kPeerGroup) {
      continue;
    }
    for (const StagePost& post : plan.peer_groups[instruction.index].posts) {
      ++(post.is_send ? all->messages : *received)[plan.messages[post.message].channel];
    }
  }
  return true;
}

}  // namespace

std::optional<SteadyLoop> FindSteadyLoop(const graph::JobProgram& job,
                                         const StagePlan& plan,
                                         int64_t turns) {
  const std::optional<size_t> round = FindRound(job);
  if (!round.has_value()) {
    return std::nullopt;
  }
  SteadyLoop loop;
  loop.turns = turns;
  loop.messages.assign(plan.channels.size(), 0);
  std::vector<uint32_t> received(plan.channels.size());
  for (const StageLanes& lanes : plan.stages) {
    StageLoop of_stage;
    of_stage.instructions = {lanes.rounds[*round], lanes.rounds[*round + 1]};
    of_stage.next_end = lanes.rounds[*round + 2];
    for (const std::vector<uint32_t>& lane : lanes.lanes) {
      of_stage.lanes.push_back(Within(lane, of_stage.instructions));
    }
    of_stage.syncs = Within(lanes.syncs, of_stage.instructions);
    of_stage.marks_before = MarksBefore(lanes, lanes.rounds[*round - 1]);
    of_stage.marks = {MarksBefore(lanes, of_stage.instructions.begin),
                      MarksBefore(lanes, of_stage.instructions.end)};
    FindEvents(lanes, &of_stage);
    if (!CountMessages(plan, lanes, &of_stage, &loop, &received)) {
      return std::nullopt;
    }
    loop.stages.push_back(std::move(of_stage));
  }
  return loop.messages == received ? std::optional(std::move(loop)) : std::nullopt;
}

}  // namespace prism::replayer
