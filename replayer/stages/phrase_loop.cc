// How a PhraseRun runs the turns of a loop or stretch, and takes the remaining ones at once
// (phrase_run.h says why).
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "replayer/stages/phrase_run.h"

namespace prism::replayer {

void PhraseRun::RunStretches(const std::vector<PhraseStretch>& stretches) {
  for (const PhraseStretch& stretch : stretches) {
    for (size_t s = 0; s < stages_.size(); ++s) {
      HaltBefore(&stages_[s], stretch.begin[s]);
    }
    WakeAll();
    Settle();
    of_stretch_.stretch = &stretch;
    of_stretch_.left = stretch.turns;
    RunTurns(&of_stretch_);
  }
  if (!stretches.empty()) {
    for (Stage& stage : stages_) {
      HaltBefore(&stage, kNone);
    }
    WakeAll();
  }
}

bool PhraseRun::AllAreIn(const PhraseStretch& stretch) const {
  for (size_t s = 0; s < stages_.size(); ++s) {
    if (stages_[s].step < stretch.begin[s]) {
      return false;
    }
  }
  return true;
}

// Effects from before a stretch cross one stage per turn: no turns are compared until half of the
// stages may be past them, and none once all are past them and still advance unevenly.
bool PhraseRun::IsWorthASnapshot(const Turns& turns) const {
  return turns.stretch == nullptr ||
         (turns.stretch->turns - turns.left >= static_cast<int64_t>(stages_.size() / 2) &&
          AllAreIn(*turns.stretch));
}

void PhraseRun::RunTurns(Turns* turns) {
  constexpr size_t kPatience = 4;
  std::array<Snapshot, 3>& history = turns->history;
  size_t taken = 0;
  for (; turns->left > 0 && !failed_; RunTurn(turns)) {
    if (!IsWorthASnapshot(*turns)) {
      continue;
    }
    std::rotate(history.begin(), history.end() - 1, history.end());
    TakeSnapshot(Extent::kChanging, &history.front());
    if (++taken >= history.size() && turns->left > 1 && MovesEvenly(*turns)) {
      Jump(turns);
      taken = 0;
      if (turns->left == 0) {
        return;
      }
    }
    if (turns->stretch != nullptr && taken > stages_.size() + kPatience) {
      return;
    }
  }
}

void PhraseRun::RunTurn(Turns* turns) {
  --turns->left;
  if (turns->stretch != nullptr) {
    for (Stage& stage : stages_) {
      HaltBefore(&stage, stage.halt + PhraseStretch::kSteps);
    }
    WakeAll();
  } else {
    ++begun_;
    WakeAll();
    RunStretches(stretches_.inside);
  }
  Settle();
}

// Calls visit(value) for all times that the next turn depends on.
template <typename Visit>
void PhraseRun::VisitTimes(Extent extent, Visit visit) {
  for (Stage& stage : stages_) {
    if (extent == Extent::kAll) {
      std::for_each_n(stage.registers, stage.register_count, visit);
    } else {
      for (const uint16_t reg : written_[stage.written].Find()) {
        visit(stage.registers[reg]);
      }
    }
  }
  for (Channel& channel : channels_) {
    if (!channel.IsIn(extent)) {
      continue;
    }
    visit(channel.send_tail);
    for (const size_t end : {0, 1}) {
      for (int64_t number = channel.finished[1 - end]; number < channel.posted[end]; ++number) {
        visit(ArrivalAt(channel, end, number).at);
      }
    }
  }
}

void PhraseRun::TakeSnapshot(Extent extent, Snapshot* snapshot) {
  snapshot->shape.clear();
  for (const Stage& stage : stages_) {
    snapshot->shape.insert(
        snapshot->shape.end(),
        {int64_t{stage.step} - int64_t{stage.halt}, stage.inside ? 1 + int64_t{stage.op} : 0,
         stage.arrived ? 1 : 0, stage.context, begun_ - stage.turn});
  }
  for (const Channel& channel : channels_) {
    if (channel.IsIn(extent)) {
      snapshot->shape.push_back(channel.posted[0] - channel.finished[1]);
      snapshot->shape.push_back(channel.posted[1] - channel.finished[0]);
    }
  }
  for (const std::vector<Meeting>& meetings : meetings_) {
    snapshot->shape.push_back(static_cast<int64_t>(meetings.size()));
  }
  snapshot->values.clear();
  VisitTimes(extent, [&](TimeNs value) { snapshot->values.push_back(value); });
}

// Whether the last two turns moved every register by the same time.
bool PhraseRun::MovesEvenly(const Turns& turns) {
  const auto& [now, before, first] = turns.history;
  if (now.shape != before.shape || now.shape != first.shape ||
      now.values.size() != before.values.size() || now.values.size() != first.values.size()) {
    return false;
  }
  for (size_t i = 0; i < now.values.size(); ++i) {
    if (now.values[i] - before.values[i] != before.values[i] - first.values[i]) {
      return false;
    }
  }
  return true;
}

// Takes those remaining turns that continue like the last two: all of them, or as many as two
// trials that went too far indicate.
void PhraseRun::Jump(Turns* turns) {
  auto& [now, later, unused] = turns->history;
  turns->moves.clear();
  for (size_t i = 0; i < now.values.size(); ++i) {
    turns->moves.push_back(now.values[i] - later.values[i]);
  }
  Trial beyond;  // the nearest that went too far
  bool told = false;
  int64_t by = turns->left - 1;
  while (by > 0 && !failed_) {
    MoveTo(*turns, by);
    Shift(*turns, by);
    RunTurn(turns);
    TakeSnapshot(Extent::kChanging, &later);
    failed_ = failed_ || later.shape != now.shape ||  // what waits does not depend on times
              later.values.size() != now.values.size();
    if (failed_) {
      return;
    }
    Trial trial = {by, ExcessOf(*turns, by + 1, later)};
    if (trial.GoesOn()) {
      std::swap(now, later);
      turns->left -= by;
      beyond.turns -= by + 1;
      by = told ? 0 : std::min(beyond.turns / 2, turns->left - 1);
    } else {
      Shift(*turns, -(by + 1));
      MoveTo(*turns, 0);
      ++turns->left;  // that one was none
      told = !beyond.excess.empty();
      by = told ? TurnsWithout(trial, beyond) : by / 2;
      beyond = std::move(trial);
    }
  }
}

// As if stages had taken `by` more turns of a stretch. Those of the loop begin at one step.
void PhraseRun::Shift(const Turns& turns, int64_t by) {
  if (turns.stretch != nullptr) {
    const auto steps = static_cast<uint32_t>(by * PhraseStretch::kSteps);  // wraps round: back
    for (Stage& stage : stages_) {
      stage.step += steps;
      HaltBefore(&stage, stage.halt + steps);
    }
  }
}

// To the state that `by` turns from now lead to.
void PhraseRun::MoveTo(const Turns& turns, int64_t by) {
  size_t i = 0;
  VisitTimes(Extent::kChanging, [&](TimeNs& value) {
    value = turns.history[0].values[i] + by * turns.moves[i];
    ++i;
  });
}

// How far `later` is beyond the state that `by` turns lead to.
std::vector<DurationNs> PhraseRun::ExcessOf(const Turns& turns, int64_t by, const Snapshot& later) {
  std::vector<DurationNs> excess(turns.moves.size());
  for (size_t i = 0; i < excess.size(); ++i) {
    excess[i] = later.values[i] - turns.history[0].values[i] - by * turns.moves[i];
  }
  return excess;
}

bool PhraseRun::Trial::GoesOn() const {
  return std::all_of(excess.begin(), excess.end(), [](DurationNs ns) { return ns == 0; });
}

// The number of turns up to which no register exceeds the prediction, if each excess has grown
// linearly since then. An excess is convex, so there may be fewer; a trial decides.
int64_t PhraseRun::TurnsWithout(const Trial& near, const Trial& far) {
  int64_t turns = near.turns - 1;
  for (size_t i = 0; i < near.excess.size(); ++i) {
    const DurationNs grown = far.excess[i] - near.excess[i];
    if (near.excess[i] > 0 && grown > 0) {
      const double back = static_cast<double>(near.excess[i]) / static_cast<double>(grown) *
                          static_cast<double>(far.turns - near.turns);
      turns = std::min(turns, near.turns - static_cast<int64_t>(std::ceil(back)));
    }
  }
  return turns;
}

}  // namespace prism::replayer
