// How a PhraseRun recognises that an iteration repeats the previous one (phrase_run.h says why).
#include <algorithm>
#include <cstddef>

#include "replayer/stages/phrase_run.h"

namespace prism::replayer {
namespace {

constexpr TimeNs kMark = 1;

bool IsMarked(TimeNs time) {
  return (time & kMark) != 0;
}

}  // namespace

// Whether the iteration continues like the previous one.
bool PhraseRun::RunFirstSteps() {
  for (Stage& stage : stages_) {
    HaltBefore(&stage, kFirstSteps);
  }
  Settle();
  for (Stage& stage : stages_) {
    HaltBefore(&stage, kNone);
  }
  if (!failed_ && !(ends_on_marks_ && marked_at_ == MarkedAt::kFirstTurn)) {
    if (Repeats()) {
      return true;
    }
    MarkTimes(MarkedAt::kFirstSteps);
  }
  WakeAll();
  return false;
}

// The same, with marks after the first turn of the loop, for jobs whose first steps decide nothing,
// for example if all stages wait for parameters being gathered.
bool PhraseRun::RunFirstTurn() {
  RunStretches(stretches_.inside);
  Settle();
  if (failed_) {
    return false;
  }
  if (ends_on_marks_ && marked_at_ == MarkedAt::kFirstTurn && Repeats()) {
    return true;
  }
  if (!AllCarryMarks()) {
    Unmark();
    MarkTimes(MarkedAt::kFirstTurn);
  }
  return false;
}

bool PhraseRun::AllCarryMarks() const {
  return std::all_of(stages_.begin(), stages_.end(), [&](const Stage& stage) {
    const TimeNs* registers = stage.registers;
    const TimeNs tail = registers[TailRegister(graph::kStageComputeStream)];
    return IsMarked(tail) || tail <= registers[kHostRegister];
  });
}

// Any marks are valid, as long as they move together and decide when the iteration ends: if kernels
// are slower than the host, those are what the last phrase has reached, and messages.
void PhraseRun::MarkTimes(MarkedAt place) {
  for (const Stage& stage : stages_) {
    TimeNs* registers = stage.registers;
    const TimeNs before = std::max(registers[kHostRegister], stage.computed);
    const TimeNs reached = registers[TailRegister(graph::kStageComputeStream)];
    for (size_t reg = TailRegister(0); reg < stage.compiler->first_debt(); ++reg) {
      const bool decides = registers[reg] > before && registers[reg] <= reached;
      registers[reg] |= decides ? kMark : 0;
    }
  }
  for (size_t c = 0; c < channels_.size(); ++c) {
    Channel& channel = channels_[c];
    channel.send_tail |= channel.send_tail > 0 ? kMark : 0;
    for (const size_t end : {0, 1}) {
      for (int64_t number = channel.finished[1 - end]; number < channel.posted[end]; ++number) {
        ArrivalAt(channel, end, number).at |= kMark;
      }
    }
  }
  TakeSnapshot(Extent::kAll, &marked_);
  marked_at_ = place;
}

void PhraseRun::Unmark() {
  for (TimeNs& time : registers_) {
    time &= ~kMark;
  }
  for (Channel& channel : channels_) {
    channel.send_tail &= ~kMark;
  }
}

// Whether everything that the next iteration depends on is marked.
bool PhraseRun::EndsOnMarks() const {
  for (size_t s = 0; s < stages_.size(); ++s) {
    const TimeNs* registers = stages_[s].registers;
    const TimeNs host = registers[kHostRegister];
    const auto is_told = [host](TimeNs time) { return IsMarked(time) || time <= host; };
    if (!IsMarked(host) || !std::all_of(registers, registers + kFirstSlotRegister, is_told)) {
      return false;
    }
    for (size_t c = 0; c < kPhraseChannels; ++c) {
      if (!is_told(channels_[c * stages_.size() + s].send_tail)) {
        return false;
      }
    }
  }
  return true;
}

// Whether everything run so far led to the state of the marked iteration, later by one common time.
// If so, all stages start the next iteration later by that time.
bool PhraseRun::Repeats() {
  if (!ends_on_marks_ || marked_.values.empty()) {
    return false;
  }
  TakeSnapshot(Extent::kAll, &now_);
  if (now_.shape != marked_.shape || now_.values.size() != marked_.values.size()) {
    return false;
  }
  const auto first = std::find_if(marked_.values.begin(), marked_.values.end(), IsMarked);
  if (first == marked_.values.end()) {
    return false;
  }
  const auto moved = [&](size_t i) { return now_.values[i] - (marked_.values[i] & ~kMark); };
  const DurationNs later = moved(static_cast<size_t>(first - marked_.values.begin()));
  for (size_t i = 0; i < now_.values.size(); ++i) {
    if (moved(i) > later || (IsMarked(marked_.values[i]) && moved(i) != later)) {
      return false;
    }
  }
  for (Stage& stage : stages_) {
    stage.next_start = stage.start + later;
  }
  repeats_ = true;
  return true;
}

}  // namespace prism::replayer
