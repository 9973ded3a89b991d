#include "replayer/stages/phrase_moves.h"

#include <algorithm>
#include <cstring>

#include "replayer/vector_versions.h"

namespace prism::replayer {
namespace {

// Outputs side by side, in vectors as wide as the machine has.
using Lane = TimeNs __attribute__((vector_size(kMoveWidth * sizeof(TimeNs))));

}  // namespace

PRISM_VECTOR_VERSIONS
void ApplyMove(const MoveTape& tape, uint32_t index, TimeNs* registers) {
  const Move& move = tape.moves[index];
  const uint16_t* in = tape.registers.data() + move.registers;
  const uint16_t* out = in + move.inputs;
  const DurationNs* entry = tape.entries.data() + move.matrix;
  std::array<TimeNs, kMostMoveInputs> before;
  for (uint32_t j = 0; j < move.inputs; ++j) {
    before[j] = registers[in[j]];
  }
  for (const uint16_t* end = out + move.outputs; out < end; out += kMoveWidth) {
    Lane after = Lane{} + kMinusInfinity;
    for (uint32_t j = 0; j < move.inputs; ++j, entry += kMoveWidth) {
      Lane by;
      std::memcpy(&by, entry, sizeof(by));
      by += before[j];
      after = by > after ? by : after;
    }
    for (uint32_t i = 0; i < kMoveWidth; ++i) {
      registers[out[i]] = after[i];
    }
  }
}

void MoveWriter::Reset(size_t registers) {
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

// The form of a register, which is an input if nothing was written to it.
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
  for (uint32_t j = 0; j < kMostMoveInputs; ++j) {
    form[j] = std::max(form[j], other[j]);
  }
}

void MoveWriter::Copy(uint16_t from, uint16_t to) {
  const Form form = At(from);
  if (place_[to] == kUntouched) {  // what it was does not matter
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
        for (uint32_t k = 0; k < kMostMoveInputs; ++k) {
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
  while (outputs_.size() % kMoveWidth != 0) {
    outputs_.push_back(outputs_.back());
  }
  Move move;
  move.registers = static_cast<uint32_t>(tape_->registers.size());
  move.matrix = static_cast<uint32_t>(tape_->entries.size());
  move.inputs = static_cast<uint16_t>(input_count_);
  move.outputs = static_cast<uint16_t>(outputs_.size());
  tape_->registers.insert(tape_->registers.end(), inputs_.begin(), inputs_.begin() + input_count_);
  tape_->registers.insert(tape_->registers.end(), outputs_.begin(), outputs_.end());
  for (size_t begin = 0; begin < outputs_.size(); begin += kMoveWidth) {
    for (uint32_t j = 0; j < input_count_; ++j) {
      for (size_t i = begin; i < begin + kMoveWidth; ++i) {
        const DurationNs entry = forms_[place_[outputs_[i]]][j];
        tape_->entries.push_back(entry > kMinusInfinity / 2 ? Halves(entry) : kMinusInfinity);
      }
    }
  }
  tape_->moves.push_back(move);
  return static_cast<uint32_t>(tape_->moves.size() - 1);
}

}  // namespace prism::replayer
