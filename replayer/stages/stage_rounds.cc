// How a StageRun takes many equal rounds at once (stage_run.h says why it may).
#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "replayer/stages/stage_run.h"

namespace prism::replayer {
namespace {

// Rounds before a boundary whose times may be referred to behind it.
constexpr size_t kReach = 2;

// Number of entries of ascending `indices` before an instruction.
int64_t CountBefore(const std::vector<uint32_t>& indices, uint32_t instruction) {
  return std::ranges::lower_bound(indices, instruction) - indices.begin();
}

}  // namespace

// Whether the last two rounds moved every time by its own step.
bool StageRun::MovesEvenly(const History& history) {
  const auto& [now, before, first] = history;
  if (!now.complete || !before.complete || !first.complete || now.shape != before.shape ||
      now.shape != first.shape) {
    return false;
  }
  for (size_t i = 0; i < now.times.size(); ++i) {
    if (now.times[i] - before.times[i] != before.times[i] - first.times[i]) {
      return false;
    }
  }
  return true;
}

void StageRun::HaltAt(size_t round) {
  for (size_t s = 0; s < state_.stages.size(); ++s) {
    state_.stages[s].halt = plan_.stages[s].rounds[round];
    Wake(s);
  }
}

void StageRun::RunTo(size_t round) {
  HaltAt(round);
  Settle();
}

// All rounds whose times a history holds must be equal ones.
void StageRun::RunRounds() {
  skipped_rounds_ = 0;
  History history;
  size_t taken = 0;
  for (size_t round = equal_.first + kReach; round + 1 < equal_.end; ++round) {
    RunTo(round);
    std::rotate(history.begin(), history.end() - 1, history.end());
    history.front() = TakeSnapshot(round);
    if (++taken >= history.size() && MovesEvenly(history)) {
      const size_t reached = Skip(round, history);
      taken = reached > round ? 0 : taken;
      round = reached;
    }
  }
  for (size_t s = 0; s < state_.stages.size(); ++s) {
    state_.stages[s].halt = kNone;
    Wake(s);
  }
}

// Skips as many rounds from the beginning of `round` as go on like the last two of the history, and
// runs the one behind them. Returns the round that it ends at.
size_t StageRun::Skip(size_t round, const History& history) {
  History latest = history;
  for (size_t by = equal_.end - 1 - round; by > 0;) {
    const State saved = state_;
    MoveTo(round + by, by, latest);
    RunTo(round + by + 1);
    Snapshot trial = TakeSnapshot(round + by + 1);
    const auto steps = static_cast<int64_t>(by + 1);
    bool goes_on = trial.complete && trial.shape == latest[0].shape;
    for (size_t i = 0; goes_on && i < trial.times.size(); ++i) {
      const DurationNs step = latest[0].times[i] - latest[1].times[i];
      goes_on = trial.times[i] == latest[0].times[i] + steps * step;
    }
    if (goes_on) {
      for (size_t i = 0; i < trial.times.size(); ++i) {
        latest[1].times[i] = trial.times[i] - (latest[0].times[i] - latest[1].times[i]);
      }
      latest[0] = std::move(trial);
      skipped_rounds_ += static_cast<int64_t>(by);
      round += by + 1;
    } else {
      state_ = saved;
    }
    by = std::min(by / 2, equal_.end - std::min(equal_.end, round + 1));
  }
  return round;
}

// From the state at the beginning of the round `by` rounds before this one to the state here, if
// all rounds in between are like the last one.
void StageRun::MoveTo(size_t round, size_t by, const History& history) {
  for (size_t s = 0; s < state_.stages.size(); ++s) {
    const StageLanes& lanes = plan_.stages[s];
    Stage& stage = state_.stages[s];
    const auto moved = [&](const std::vector<uint32_t>& indices) {
      return static_cast<uint32_t>(CountBefore(indices, lanes.rounds[round]) -
                                   CountBefore(indices, lanes.rounds[round - by]));
    };
    for (size_t lane = 0; lane < stage.lanes.size(); ++lane) {
      stage.lanes[lane].next += moved(lanes.lanes[lane]);
    }
    stage.waits.next += moved(lanes.syncs);
    stage.bases.resize(stage.bases.size() + moved(lanes.syncs), kUnknown);
  }
  size_t i = 0;
  VisitTimes(round, [&](TimeNs& time) {
    const auto& [now, before, first] = history;
    time = now.times[i] + static_cast<int64_t>(by) * (now.times[i] - before.times[i]);
    ++i;
  });
}

StageRun::Snapshot StageRun::TakeSnapshot(size_t round) {
  Snapshot snapshot;
  for (size_t s = 0; s < state_.stages.size(); ++s) {
    const StageLanes& lanes = plan_.stages[s];
    const auto note = [&](const std::vector<uint32_t>& indices, const LaneCursor& cursor) {
      snapshot.shape.push_back(cursor.next - CountBefore(indices, lanes.rounds[round]));
      snapshot.shape.push_back(cursor.holding ? 1 : 0);
      snapshot.complete =
          snapshot.complete && cursor.next >= CountBefore(indices, lanes.rounds[round - 1]);
    };
    for (size_t lane = 0; lane < lanes.lanes.size(); ++lane) {
      note(lanes.lanes[lane], state_.stages[s].lanes[lane]);
    }
    note(lanes.syncs, state_.stages[s].waits);
  }
  VisitTimes(round, [&](TimeNs time) {
    snapshot.times.push_back(time);
    snapshot.shape.push_back(time == kUnknown ? 1 : 0);
  });
  return snapshot;
}

// Calls visit(time) for all times that instructions behind the beginning of a round may depend on,
// unknown ones included.
template <typename Visit>
void StageRun::VisitTimes(size_t round, Visit visit) {
  for (size_t s = 0; s < state_.stages.size(); ++s) {
    const StageLanes& lanes = plan_.stages[s];
    Stage& stage = state_.stages[s];
    std::ranges::for_each(stage.tails, visit);
    for (LaneCursor& cursor : stage.lanes) {
      if (cursor.holding) {
        visit(cursor.arrival);
      }
    }
    const uint32_t begin = lanes.rounds[round - kReach];
    const uint32_t end = lanes.rounds[round];
    const auto epochs =
        static_cast<size_t>(1 + CountBefore(lanes.syncs, end) - CountBefore(lanes.syncs, begin));
    for (size_t i = stage.bases.size() - std::min(stage.bases.size(), epochs);
         i < stage.bases.size(); ++i) {
      visit(stage.bases[i]);
    }
    for (uint32_t i = begin; i < end; ++i) {
      const Instruction& instruction = lanes.instructions[i];
      if (instruction.kind == InstructionKind::kRecord && instruction.event != kNone) {
        visit(stage.events[instruction.event]);
      }
      if (instruction.kind == InstructionKind::kPeerGroup) {
        for (const StagePost& post : plan_.peer_groups[instruction.index].posts) {
          visit(state_.arrivals[post.is_send ? 1 : 0][post.message]);
        }
      }
    }
  }
}

}  // namespace prism::replayer
