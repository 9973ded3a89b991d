// How a StageRun runs the turns of a loop, and jumps over most of them (stage_run.h says why).
#include <algorithm>
#include <utility>

#include "replayer/stages/stage_run.h"

namespace prism::replayer {

// What is behind the last turn waits until that has begun; a lane without a part in the loop has
// no turns and waits as well. False while the lane has to wait.
bool StageRun::EnterTurn(const Range& loop, LaneCursor* cursor) const {
  if (cursor->next == loop.end) {
    if (loop.empty()) {
      if (state_.begun < state_.turns) {
        return false;
      }
      cursor->turn = static_cast<uint32_t>(state_.turns - 1);
    } else if (cursor->turn + 1 < state_.turns) {
      ++cursor->turn;
      cursor->next = loop.begin;
    }
  }
  return cursor->turn < state_.begun;
}

void StageRun::BeginTurn() {
  const auto turn = static_cast<uint32_t>(state_.begun++);
  for (size_t s = 0; s < state_.stages.size(); ++s) {
    const uint32_t events = loop_->stages[s].events.length();
    std::fill_n(state_.stages[s].looped.begin() + (turn % kTurnsKept) * events, events, kUnknown);
    Wake(s);
  }
}

// All turns but for what the last one leaves open. False where lanes drift apart.
bool StageRun::RunTurns() {
  std::vector<Snapshot> history;
  while (state_.begun < state_.turns) {
    Settle();
    if (!KeepsUp()) {
      work_.clear();
      return false;
    }
    history.push_back(Registers());
    bool jumped = false;
    for (uint32_t period = 1; !jumped && period <= state_.stages.size(); ++period) {
      jumped = TryToJump(&history, period);
    }
    if (state_.begun < state_.turns) {
      BeginTurn();
    }
  }
  return true;
}

bool StageRun::KeepsUp() const {
  const auto lags = [this](const LaneCursor& cursor, const Range& loop) {
    return !loop.empty() && cursor.turn + kTurnsKept < state_.begun + 2;
  };
  for (size_t s = 0; s < state_.stages.size(); ++s) {
    const Stage& stage = state_.stages[s];
    const StageLoop& loop = loop_->stages[s];
    for (size_t lane = 0; lane < stage.lanes.size(); ++lane) {
      if (lags(stage.lanes[lane], loop.lanes[lane])) {
        return false;
      }
    }
    if (lags(stage.waits, loop.syncs)) {
      return false;
    }
  }
  return true;
}

// The event that is recorded in that turn, if it is one of the loop.
TimeNs& StageRun::EventOf(size_t s, uint32_t event, uint32_t turn) {
  Stage& stage = state_.stages[s];
  if (loop_ == nullptr || !loop_->stages[s].events.Contains(event)) {
    return stage.events[event];
  }
  const Range& events = loop_->stages[s].events;
  return stage.looped[(turn % kTurnsKept) * events.length() + event - events.begin];
}

// What a wait in the loop takes from the round before, it takes from the turn before.
TimeNs StageRun::EventFor(size_t s, uint32_t event, uint32_t waiting, uint32_t turn) {
  if (turn > 0 && loop_->stages[s].instructions.Contains(waiting)) {
    const Range& events = loop_->stages[s].events;
    if (event < events.begin && event + events.length() >= events.begin) {
      return EventOf(s, event + events.length(), turn - 1);
    }
  }
  return EventOf(s, event, turn);
}

// Calls visit(value, moved) for all times of a stage that its next turn depends on: value + moved
// is the time, counted with the turns that have begun.
template <typename Visit>
void StageRun::VisitStage(size_t s, Visit visit) {
  Stage& stage = state_.stages[s];
  const StageLoop& loop = loop_->stages[s];
  for (TimeNs& tail : stage.tails) {
    visit(tail, 0);
  }
  auto first_turn = static_cast<uint32_t>(state_.begun);  // that somebody is still in
  const auto note = [&](LaneCursor& cursor, const Range& range) {
    first_turn = range.empty() ? first_turn : std::min(first_turn, cursor.turn);
    if (cursor.holding) {
      visit(cursor.arrival, 0);
    }
  };
  for (size_t lane = 0; lane < stage.lanes.size(); ++lane) {
    note(stage.lanes[lane], loop.lanes[lane]);
  }
  note(stage.waits, loop.syncs);
  const Instruction& begin = plan_.stages[s].instructions[loop.instructions.begin];
  for (size_t epoch = EpochOf(s, begin, first_turn); epoch < stage.bases.size(); ++epoch) {
    visit(stage.bases[epoch], state_.begun * costs_.turn_host_ns[s]);
  }
  const auto last_turn = static_cast<uint32_t>(state_.begun - 1);
  if (first_turn > last_turn) {
    for (const uint32_t event : loop.handed_on) {
      visit(EventOf(s, event, last_turn), 0);
    }
    return;
  }
  for (uint32_t turn = std::max(first_turn, 1U) - 1; turn <= last_turn; ++turn) {
    for (uint32_t event = loop.events.begin; event < loop.events.end; ++event) {
      visit(EventOf(s, event, turn), 0);
    }
  }
}

template <typename Visit>
void StageRun::VisitRegisters(Visit visit) {
  for (size_t s = 0; s < state_.stages.size(); ++s) {
    VisitStage(s, visit);
  }
  for (const Channel& channel : state_.channels) {
    const int64_t begin = std::min(channel.finished[0], channel.finished[1]);
    const int64_t end = std::max(channel.posted[0], channel.posted[1]);
    for (int64_t message = begin; message < end; ++message) {
      const auto place = static_cast<uint32_t>(message) & channel.mask;
      for (std::vector<Arrival>& arrivals : state_.arrivals) {
        Arrival& arrival = arrivals[channel.begin + place];
        if (arrival.message == message) {
          visit(arrival.at, 0);
        }
      }
    }
  }
}

StageRun::Snapshot StageRun::Registers() {
  Snapshot snapshot;
  const auto note = [&](const LaneCursor& cursor, const Range& loop) {
    const int64_t lag = loop.empty() && cursor.next == loop.end ? 0 : state_.begun - cursor.turn;
    snapshot.shape.insert(snapshot.shape.end(), {cursor.next, cursor.holding ? 1 : 0, lag});
  };
  for (size_t s = 0; s < state_.stages.size(); ++s) {
    const Stage& stage = state_.stages[s];
    const StageLoop& loop = loop_->stages[s];
    for (size_t lane = 0; lane < stage.lanes.size(); ++lane) {
      note(stage.lanes[lane], loop.lanes[lane]);
    }
    note(stage.waits, loop.syncs);
  }
  for (size_t c = 0; c < state_.channels.size(); ++c) {
    const Channel& channel = state_.channels[c];
    const int64_t moved = state_.begun * loop_->messages[c];
    for (const size_t end : {0, 1}) {
      snapshot.shape.push_back(channel.posted[end] - moved);
      snapshot.shape.push_back(channel.finished[end] - moved);
    }
  }
  VisitRegisters(
      [&](TimeNs& value, DurationNs moved) { snapshot.values.push_back(value + moved); });
  return snapshot;
}

// Jumps as far as the lines of the last turns lead, found by halves; ends in a state that has been
// run. False where they are no lines.
bool StageRun::TryToJump(std::vector<Snapshot>* history, uint32_t period) {
  if (history->size() < 2 * size_t{period} + 1) {
    return false;
  }
  const Snapshot& last = history->back();
  const Snapshot& before = (*history)[history->size() - 1 - period];
  const Snapshot& first = (*history)[history->size() - 1 - 2 * size_t{period}];
  if (last.shape != before.shape || last.shape != first.shape ||
      last.values.size() != before.values.size() || last.values.size() != first.values.size()) {
    return false;
  }
  std::vector<DurationNs> rates(last.values.size());
  for (size_t i = 0; i < rates.size(); ++i) {
    rates[i] = last.values[i] - before.values[i];
    if (before.values[i] - first.values[i] != rates[i]) {
      return false;
    }
  }
  Snapshot now = last;
  int64_t failing = (state_.turns - state_.begun) / period;
  for (int64_t jump = failing - 1; jump > 0; jump = failing / 2) {
    const State here = state_;
    state_.turns -= jump * period;
    size_t i = 0;
    VisitRegisters([&](TimeNs& value, DurationNs) { value += jump * rates[i++]; });
    for (uint32_t turn = 0; turn < period; ++turn) {
      BeginTurn();
      Settle();
    }
    Snapshot reached = Registers();
    bool on_lines = reached.shape == now.shape && reached.values.size() == rates.size();
    for (i = 0; on_lines && i < rates.size(); ++i) {
      on_lines = reached.values[i] == now.values[i] + (jump + 1) * rates[i];
    }
    if (on_lines) {
      now = std::move(reached);
      failing -= jump + 1;
    } else {
      state_ = here;
      failing = jump;
    }
  }
  history->assign(1, std::move(now));
  return true;
}

}  // namespace prism::replayer
