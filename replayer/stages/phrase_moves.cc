#include "replayer/stages/phrase_moves.h"

#include <algorithm>
#include <utility>

namespace prism::replayer {
namespace {

constexpr uint16_t kComputeTail = TailRegister(graph::kStageComputeStream);

bool IsFinite(DurationNs entry) {
  return entry > kMinusInfinity / 2;
}

bool IsTail(uint16_t reg) {
  return reg != kHostRegister && reg < kFirstSlotRegister;
}

// Moves with at most this many outputs have specialised code.
constexpr size_t kUnrolledOutputs = 3;

// Applies a move with that many inputs and outputs; kOutputs 0: any number.
template <size_t kInputs, size_t kOutputs>
void ApplyRows(const Move& move, const MoveTape& tape, TimeNs* registers) {
  const uint16_t* reg = tape.registers.data() + move.registers;
  const DurationNs* entry = tape.entries.data() + move.matrix;
  std::array<TimeNs, kInputs> before;
  for (size_t j = 0; j < kInputs; ++j) {
    before[j] = registers[*reg++];
  }
  const size_t outputs = kOutputs == 0 ? move.outputs : kOutputs;
  TimeNs first = kMinusInfinity;
  for (size_t i = 0; i < outputs; ++i) {
    TimeNs after = kMinusInfinity;
    for (size_t j = 0; j < kInputs; ++j) {
      after = std::max(after, before[j] + *entry++);
    }
    registers[*reg++] = after;
    first = i == 0 ? after : first;
  }
  for (const uint16_t* const end = reg + move.following; reg < end; ++reg) {
    registers[*reg] = first + *entry++;
  }
}

using ApplyRowsOf = void (*)(const Move&, const MoveTape&, TimeNs*);

template <size_t... kSizes>
constexpr std::array<ApplyRowsOf, sizeof...(kSizes)> BySizes(
    std::index_sequence<kSizes...> /*numbers*/) {
  return {&ApplyRows<kSizes / (kUnrolledOutputs + 1), kSizes % (kUnrolledOutputs + 1)>...};
}

constexpr auto kApplyRows =
    BySizes(std::make_index_sequence<(kMaxMoveInputs + 1) * (kUnrolledOutputs + 1)>());

}  // namespace

void ApplyMove(const MoveTape& tape, uint32_t index, TimeNs* registers) {
  const Move& move = tape.moves[index];
  kApplyRows[move.code](move, tape, registers);
}

void MoveWriter::Reset(size_t registers, const KnownTails& known) {
  known_ = known;
  if (place_.size() < registers) {
    place_.resize(registers, kUntouched);
    is_written_.resize(registers);
  }
  host_ns_ = 0;
  Restart();
}

void MoveWriter::Restart() {
  for (const uint16_t reg : touched_) {
    place_[reg] = kUntouched;
    is_written_[reg] = false;
  }
  touched_.clear();
  written_.clear();
  forms_.clear();
  input_count_ = 1;
  inputs_[0] = kHostRegister;
}

// The form of a register; an input if nothing was written to it.
MoveWriter::Form& MoveWriter::At(uint16_t reg) {
  if (place_[reg] == kUntouched) {
    place_[reg] = static_cast<uint16_t>(forms_.size());
    touched_.push_back(reg);
    forms_.emplace_back();
    forms_.back().fill(kMinusInfinity);
    forms_.back()[input_count_] = 0;
    inputs_[input_count_++] = reg;
  }
  return forms_[place_[reg]];
}

MoveWriter::Form& MoveWriter::Writable(uint16_t reg) {
  if (!is_written_[reg]) {
    is_written_[reg] = true;
    written_.push_back(reg);
  }
  return At(reg);
}

void MoveWriter::ReachHost(uint16_t reg) {
  Form& form = Writable(reg);
  form[0] = std::max(form[0], host_ns_);
}

void MoveWriter::Delay(uint16_t reg, DurationNs duration) {
  for (DurationNs& entry : Writable(reg)) {
    entry += duration;
  }
}

void MoveWriter::Raise(uint16_t reg, uint16_t by) {
  const Form other = At(by);
  Form& form = Writable(reg);
  for (uint32_t j = 0; j < kMaxMoveInputs; ++j) {
    form[j] = std::max(form[j], other[j]);
  }
}

void MoveWriter::Copy(uint16_t from, uint16_t to) {
  const Form form = At(from);
  if (place_[to] == kUntouched) {  // its earlier value does not matter
    place_[to] = static_cast<uint16_t>(forms_.size());
    touched_.push_back(to);
    forms_.emplace_back();
  }
  Writable(to) = form;
}

void MoveWriter::Fold(const FoldedSegment& segment) {
  std::array<Form, kMaxFoldedStreams> after;
  for (uint32_t i = 0; i < segment.stream_count; ++i) {
    after[i].fill(kMinusInfinity);
    after[i][0] = host_ns_ + segment.from_host[i];
    for (uint32_t j = 0; j < segment.stream_count; ++j) {
      if (segment.from_tail[i][j] > kMinusInfinity / 2) {
        const Form& before = At(TailRegister(segment.streams[j]));
        for (uint32_t k = 0; k < kMaxMoveInputs; ++k) {
          after[i][k] = std::max(after[i][k], before[k] + segment.from_tail[i][j]);
        }
      }
    }
  }
  for (uint32_t i = 0; i < segment.stream_count; ++i) {
    Writable(TailRegister(segment.streams[i])) = after[i];
  }
  host_ns_ += segment.host_ns;
}

std::optional<DurationNs> MoveWriter::TakeReach(uint16_t reg) {
  if (touched_.size() != 1 || touched_.front() != reg || !is_written_[reg] || input_count_ != 2 ||
      forms_.front()[1] != 0) {
    return std::nullopt;
  }
  const DurationNs reached = forms_.front()[0];
  Restart();
  return reached;
}

uint32_t MoveWriter::Store() {
  ChooseInputs();
  ChooseRows();
  Move move;
  move.registers = static_cast<uint32_t>(tape_->registers.size());
  move.matrix = static_cast<uint32_t>(tape_->entries.size());
  move.inputs = static_cast<uint16_t>(kept_.size());
  move.outputs = static_cast<uint16_t>(outputs_.size());
  move.following = static_cast<uint16_t>(following_.size());
  const size_t unrolled = outputs_.size() <= kUnrolledOutputs ? outputs_.size() : 0;
  move.code = static_cast<uint16_t>(kept_.size() * (kUnrolledOutputs + 1) + unrolled);
  for (const uint32_t input : kept_) {
    tape_->registers.push_back(inputs_[input]);
  }
  tape_->registers.insert(tape_->registers.end(), outputs_.begin(), outputs_.end());
  for (const uint16_t reg : outputs_) {
    for (const uint32_t input : kept_) {
      const DurationNs entry = forms_[place_[reg]][input];
      tape_->entries.push_back(IsFinite(entry) ? Halves(entry) : kMinusInfinity);
    }
  }
  for (const Following& output : following_) {
    tape_->registers.push_back(output.reg);
    tape_->entries.push_back(Halves(output.beyond));
  }
  tape_->moves.push_back(move);
  Learn();
  return static_cast<uint32_t>(tape_->moves.size() - 1);
}

// Chooses those that decide an output in some possible state: not those that are minus infinity,
// nor those that are not later than the compute stream's tail and lead to nothing later than it
// does.
void MoveWriter::ChooseInputs() {
  const auto* compute = std::find(inputs_.begin(), inputs_.begin() + input_count_, kComputeTail);
  kept_.clear();
  for (uint32_t input = 0; input < input_count_; ++input) {
    const uint16_t reg = inputs_[input];
    const StreamSet stream = IsTail(reg) ? Bit(static_cast<uint16_t>(reg - 1)) : 0;
    const bool behind = (known_.behind & stream) != 0 &&
                        compute != inputs_.begin() + input_count_ &&
                        DecidesNothing(input, static_cast<uint32_t>(compute - inputs_.begin()));
    if (!behind && (known_.never & stream) == 0) {
      kept_.push_back(input);
    }
  }
}

bool MoveWriter::DecidesNothing(uint32_t input, uint32_t compute) const {
  return std::all_of(outputs_.begin(), outputs_.end(), [&](uint16_t reg) {
    const Form& form = forms_[place_[reg]];
    return form[input] <= form[compute] || !IsFinite(form[input]);
  });
}

// Chooses the outputs that get a row of the matrix, the compute stream's tail first; the others are
// at fixed offsets from it.
void MoveWriter::ChooseRows() {
  following_.clear();
  const auto compute = std::find(outputs_.begin(), outputs_.end(), kComputeTail);
  if (compute != outputs_.end()) {
    std::swap(*compute, outputs_.front());
    std::erase_if(outputs_, [&](uint16_t reg) {
      const std::optional<DurationNs> beyond = BeyondCompute(forms_[place_[reg]]);
      if (reg == kComputeTail || !beyond.has_value()) {
        return false;
      }
      following_.push_back({reg, *beyond});
      return true;
    });
  }
}

// By how much a form is beyond the compute stream's in every state; null if that depends on the
// state.
std::optional<DurationNs> MoveWriter::BeyondCompute(const Form& form) const {
  const Form& compute = forms_[place_[kComputeTail]];
  std::optional<DurationNs> beyond;
  for (const uint32_t input : kept_) {
    if (IsFinite(form[input]) != IsFinite(compute[input])) {
      return std::nullopt;
    }
    if (!IsFinite(form[input])) {
      continue;
    }
    if (beyond.has_value() && *beyond != form[input] - compute[input]) {
      return std::nullopt;
    }
    beyond = form[input] - compute[input];
  }
  return beyond;
}

// What is known after the move.
void MoveWriter::Learn() {
  Form compute;  // form of its tail after the move
  compute.fill(kMinusInfinity);
  bool goes_on = true;  // the tail is not earlier than before the move
  if (place_[kComputeTail] != kUntouched) {
    compute = forms_[place_[kComputeTail]];
    goes_on = std::any_of(kept_.begin(), kept_.end(), [&](uint32_t input) {
      return inputs_[input] == kComputeTail && compute[input] >= 0;
    });
  }
  known_.behind = goes_on ? known_.behind : 0;
  for (const uint16_t reg : written_) {
    if (!IsTail(reg) || reg == kComputeTail) {
      continue;
    }
    const StreamSet stream = Bit(static_cast<uint16_t>(reg - 1));
    const Form& form = forms_[place_[reg]];
    const bool behind = std::all_of(kept_.begin(), kept_.end(), [&](uint32_t input) {
      return form[input] <= compute[input] || !IsFinite(form[input]);
    });
    known_.behind = behind ? known_.behind | stream : known_.behind & ~stream;
    known_.never &= ~stream;
  }
}

void MoveWriter::TailMoved(uint16_t reg) {
  if (reg != kComputeTail) {
    known_.behind &= ~Bit(static_cast<uint16_t>(reg - 1));
    known_.never &= ~Bit(static_cast<uint16_t>(reg - 1));
  }
}

void MoveWriter::TailCleared(uint16_t reg) {
  TailMoved(reg);
  known_.never |= Bit(static_cast<uint16_t>(reg - 1));
}

}  // namespace prism::replayer
