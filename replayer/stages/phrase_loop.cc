// How a PhraseRun runs the turns of a loop, and takes those that are left at once (phrase_run.h
// says why).
#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "replayer/stages/phrase_run.h"

namespace prism::replayer {
namespace {

// Whether round `round` of every stage takes the steps of the round before it.
bool IsAsBefore(const graph::PhrasedJob& job, size_t round) {
  return std::all_of(job.stages.begin(), job.stages.end(), [&](const graph::PhrasedStage& stage) {
    const auto begin = [&](size_t r) { return stage.steps.begin() + stage.rounds[r]; };
    return std::equal(begin(round - 1), begin(round), begin(round), begin(round + 1));
  });
}

}  // namespace

std::optional<PhraseLoop> FindPhraseLoop(const graph::PhrasedJob& job, int64_t more) {
  constexpr size_t kFewest = 3;  // one with one like it on either side
  size_t known = std::numeric_limits<size_t>::max();
  for (const graph::PhrasedStage& stage : job.stages) {
    known = std::min(known, stage.rounds.size());
  }
  // Rounds first .. last are alike; where the last of all ends is not known.
  for (size_t last = known - std::min<size_t>(known, 2); last > 0;) {
    size_t first = last;
    while (first > 0 && IsAsBefore(job, first)) {
      --first;
    }
    const size_t alike = last - first + 1;
    if (alike >= kFewest) {
      PhraseLoop loop;
      loop.turns = static_cast<int64_t>(alike) + more;
      for (const graph::PhrasedStage& stage : job.stages) {
        loop.stages.push_back(
            {stage.rounds[first], stage.rounds[first + 1], stage.rounds[last + 1]});
      }
      return loop;
    }
    last = std::min(first, last - 1);
  }
  return std::nullopt;
}

void PhraseRun::RunTurns() {
  size_t taken = 0;
  for (; begun_ < turns_ && !failed_; RunTurn()) {
    std::rotate(history_.begin(), history_.end() - 1, history_.end());
    TakeSnapshot(&history_.front());
    if (++taken >= history_.size() && turns_ - begun_ > 1 && MovesEvenly()) {
      Jump();
      taken = 0;
    }
  }
}

void PhraseRun::RunTurn() {
  ++begun_;
  for (auto stage = stages_.rbegin(); stage != stages_.rend(); ++stage) {
    Wake(&*stage);
  }
  Settle();
}

// Calls visit(value) for all times beside registers that the next turn depends on.
template <typename Visit>
void PhraseRun::VisitMessages(Visit visit) {
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
  for (const std::vector<Meeting>& meetings : meetings_) {
    snapshot->shape.push_back(static_cast<int64_t>(meetings.size()));
  }
  snapshot->values = registers_;
  VisitMessages([&](TimeNs value) { snapshot->values.push_back(value); });
}

// Whether the last two turns moved every register by the same time.
bool PhraseRun::MovesEvenly() const {
  const auto& [now, before, first] = history_;
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

// Takes those of the turns that are left that go on as the last two did: all, or as many as two
// trials that went too far tell.
void PhraseRun::Jump() {
  moves_.clear();
  for (size_t i = 0; i < history_[0].values.size(); ++i) {
    moves_.push_back(history_[0].values[i] - history_[1].values[i]);
  }
  Snapshot& now = history_[0];
  Trial beyond;  // the nearest that went too far
  bool told = false;
  int64_t turns = turns_ - begun_ - 1;
  while (turns > 0 && !failed_) {
    MoveTo(now, turns);
    RunTurn();
    TakeSnapshot(&history_[1]);
    failed_ = failed_ || history_[1].shape != now.shape;  // what waits does not depend on times
    Trial trial = {turns, ExcessOf(now, turns + 1, history_[1])};
    if (!failed_ && trial.GoesOn()) {
      std::swap(now, history_[1]);
      turns_ -= turns;
      beyond.turns -= turns + 1;
      turns = told ? 0 : std::min(beyond.turns / 2, turns_ - begun_ - 1);
    } else {
      MoveTo(now, 0);
      ++turns_;  // that one was none
      told = !beyond.excess.empty();
      turns = told ? TurnsWithout(trial, beyond) : turns / 2;
      beyond = std::move(trial);
    }
  }
}

void PhraseRun::MoveTo(const Snapshot& snapshot, int64_t turns) {
  size_t i = 0;
  const auto move = [&](TimeNs& value) {
    value = snapshot.values[i] + turns * moves_[i];
    ++i;
  };
  for (TimeNs& value : registers_) {
    move(value);
  }
  VisitMessages(move);
}

// How far `later` is beyond where `turns` turns like the last ones lead to.
std::vector<DurationNs> PhraseRun::ExcessOf(const Snapshot& snapshot,
                                            int64_t turns,
                                            const Snapshot& later) const {
  std::vector<DurationNs> excess(moves_.size());
  for (size_t i = 0; i < moves_.size(); ++i) {
    excess[i] = later.values[i] - snapshot.values[i] - turns * moves_[i];
  }
  return excess;
}

bool PhraseRun::Trial::GoesOn() const {
  return std::all_of(excess.begin(), excess.end(), [](DurationNs ns) { return ns == 0; });
}

// Turns after which no register is beyond, if each has grown so evenly from there on. An excess is
// convex, so that there may be fewer; a trial decides.
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
