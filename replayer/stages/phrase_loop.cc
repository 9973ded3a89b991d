// How a PhraseRun runs the turns of a loop, and takes those that are left at once (phrase_run.h
// says why).
#include <algorithm>
#include <limits>
#include <utility>

#include "replayer/stages/phrase_run.h"

namespace prism::replayer {
namespace {

// Whether the steps of rounds round - 1, round and round + 1 are the same.
bool RoundsAreAlike(const graph::PhrasedStage& stage, size_t round) {
  const auto begin = [&](size_t r) { return stage.steps.begin() + stage.rounds[r]; };
  return std::equal(begin(round - 1), begin(round), begin(round), begin(round + 1)) &&
         std::equal(begin(round), begin(round + 1), begin(round + 1), begin(round + 2));
}

bool IsNever(TimeNs time) {
  return time < kNever / 2;
}

}  // namespace

std::optional<PhraseLoop> FindPhraseLoop(const graph::PhrasedJob& job, int64_t turns) {
  size_t known = std::numeric_limits<size_t>::max();
  for (const graph::PhrasedStage& stage : job.stages) {
    known = std::min(known, stage.rounds.size());
  }
  for (size_t round = known; round-- > 1;) {
    if (round + 2 < known &&
        std::all_of(job.stages.begin(), job.stages.end(), [&](const graph::PhrasedStage& stage) {
          return RoundsAreAlike(stage, round);
        })) {
      PhraseLoop loop;
      loop.turns = turns;
      for (const graph::PhrasedStage& stage : job.stages) {
        loop.stages.push_back({stage.rounds[round], stage.rounds[round + 1]});
      }
      return loop;
    }
  }
  return std::nullopt;
}

bool PhraseRun::RunTurns() {
  size_t taken = 0;
  while (begun_ < turns_) {
    Settle();
    if (failed_) {
      return false;
    }
    std::rotate(history_.begin(), history_.end() - 1, history_.end());
    TakeSnapshot(&history_.front());
    if (++taken >= history_.size() && MovesEvenly()) {
      JumpToEnd();
      return true;
    }
    for (Stage& stage : stages_) {
      stage.moved_tails = taken == 1 ? 0 : stage.moved_tails;
      stage.moved_slots = taken > 1 && stage.moved_slots;
      stage.synced = taken > 1 && stage.synced;
    }
    ++begun_;
    for (size_t s = stages_.size(); s-- > 0;) {
      Wake(s);
    }
  }
  return true;
}

// Calls visit(value) for all times that the next turn depends on; those of stages first, by stage
// and register.
template <typename Visit>
void PhraseRun::VisitRegisters(Visit visit) {
  for (TimeNs& value : registers_) {
    visit(value);
  }
  for (Channel& channel : channels_) {
    visit(channel.send_tail);
    for (const size_t end : {0, 1}) {
      for (int64_t number = channel.finished[1 - end]; number < channel.posted[end]; ++number) {
        visit(ArrivalAt(channel, end, number).at);
      }
    }
  }
}

void PhraseRun::TakeSnapshot(Snapshot* snapshot) {
  snapshot->shape.clear();
  snapshot->values.clear();
  for (const Stage& stage : stages_) {
    snapshot->shape.insert(snapshot->shape.end(),
                           {stage.step, stage.inside ? 1 + int64_t{stage.op} : 0,
                            stage.arrived ? 1 : 0, stage.context, begun_ - stage.turn});
  }
  for (const Channel& channel : channels_) {
    for (const size_t end : {0, 1}) {
      snapshot->shape.push_back(channel.posted[end] - channel.finished[1 - end]);
    }
  }
  VisitRegisters([&](TimeNs value) { snapshot->values.push_back(value); });
}

// Whether the last two turns moved everything by the same time, but for what phrase_run.h says.
bool PhraseRun::MovesEvenly() const {
  const Snapshot& now = history_[0];
  if (now.shape != history_[1].shape || now.shape != history_[2].shape ||
      now.values.size() != history_[1].values.size() ||
      now.values.size() != history_[2].values.size()) {
    return false;
  }
  const size_t compute = stages_.front().registers + TailRegister(graph::kStageComputeStream);
  const DurationNs turn_ns = now.values[compute] - history_[1].values[compute];
  for (const Stage& stage : stages_) {
    if (!StageMovesEvenly(stage, turn_ns)) {
      return false;
    }
  }
  for (size_t i = registers_.size(); i < now.values.size(); ++i) {
    const DurationNs by = now.values[i] - history_[1].values[i];
    const bool unused = by == 0 && now.values[i] == 0;  // channels without messages
    if (by != history_[1].values[i] - history_[2].values[i] || (by != turn_ns && !unused)) {
      return false;
    }
  }
  return true;
}

bool PhraseRun::StageMovesEvenly(const Stage& stage, DurationNs turn_ns) const {
  for (size_t reg = 0; reg < stage.register_count; ++reg) {
    const size_t i = stage.registers + reg;
    const TimeNs value = history_[0].values[i];
    const DurationNs by = value - history_[1].values[i];
    if (by != history_[1].values[i] - history_[2].values[i]) {
      return false;
    }
    if (by == turn_ns) {
      continue;
    }
    bool still = false;  // moves on its own, or not at all
    if (reg == kHostRegister) {
      still = !stage.synced && by <= turn_ns;
    } else if (by == 0 && reg < kFirstSlotRegister) {
      still = IsNever(value) || (stage.moved_tails & Bit(static_cast<uint16_t>(reg - 1))) == 0;
    } else {
      still = by == 0 && (IsNever(value) || !stage.moved_slots);
    }
    if (!still) {
      return false;
    }
  }
  return true;
}

void PhraseRun::JumpToEnd() {
  const int64_t left = turns_ - begun_;
  size_t i = 0;
  VisitRegisters([&](TimeNs& value) {
    value += left * (history_[0].values[i] - history_[1].values[i]);
    ++i;
  });
  turns_ = begun_;
  for (size_t s = stages_.size(); s-- > 0;) {
    Wake(s);
  }
}

}  // namespace prism::replayer
