// What a stage does between two meetings with others, as max-plus matrices: registers (the host's
// time, tails of streams, event slots) as a function of their values before.
//
//   out'[i] = max over j of in[j] + m[j][i]
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "graph/base/time.h"
#include "graph/program/job_program.h"
#include "replayer/stages/block_fold.h"
#include "replayer/stages/stream_set.h"

namespace prism::replayer {

// Numbers of a stage's registers. After the slots: events inside the block being written.
inline constexpr uint16_t kHostRegister = 0;
constexpr uint16_t TailRegister(uint16_t stream) {
  return static_cast<uint16_t>(1 + stream);
}
inline constexpr uint16_t kFirstSlotRegister = 1 + graph::kStageStreamCount;

// A run counts in half nanoseconds: an odd count is a mark (phrase_run.h).
constexpr DurationNs Halves(DurationNs duration) {
  return 2 * duration;
}

inline constexpr uint32_t kMaxMoveInputs = 8;
inline constexpr uint32_t kMaxMoveOutputs = 64;

// If compute waits for everything else at the end, the tails of the other streams are at fixed
// offsets from its tail: a move computes the compute stream's tail, and theirs by one addition
// each.
struct Move {
  // Where its inputs begin in MoveTape::registers; its outputs come next, then those at a fixed
  // offset from the first output.
  uint32_t registers = 0;
  // In MoveTape::entries: by output and input; then the offsets of those that follow from the first
  // output.
  uint32_t matrix = 0;
  uint16_t inputs = 0;
  uint16_t outputs = 0;
  uint16_t following = 0;
  uint16_t code = 0;  // selects the code that applies it, by numbers of inputs and outputs
};

// What is known about tails whenever this code runs, by stream. An input that cannot decide any
// output is left out of its move.
struct KnownTails {
  StreamSet behind = 0;  // not later than the compute stream's tail
  StreamSet never = 0;   // minus infinity

  bool operator==(const KnownTails&) const = default;
};

// Moves and what they share.
struct MoveTape {
  std::vector<Move> moves;
  std::vector<uint16_t> registers;
  std::vector<DurationNs> entries;  // halves
};

void ApplyMove(const MoveTape& tape, uint32_t move, TimeNs* registers);

// Follows ops symbolically, as forms, and writes a move wherever the next op needs registers.
class MoveWriter {
 public:
  // A time as a function of the inputs.
  using Form = std::array<DurationNs, kMaxMoveInputs>;

  explicit MoveWriter(MoveTape* tape) : tape_(tape) {}

  void Reset(size_t registers, const KnownTails& known);

  // What is known of registers before the next op; moves not written yet count as done.
  [[nodiscard]] const KnownTails& known() const { return known_; }
  // A tail is advanced by something other than a move, or set to minus infinity.
  void TailMoved(uint16_t reg);
  void TailCleared(uint16_t reg);

  // Adds `duration` of host time.
  void AddHost(DurationNs duration) { host_ns_ += duration; }
  [[nodiscard]] DurationNs host_ns() const { return host_ns_; }

  // Whether those registers may be used together with the current ones without a move in between.
  template <typename Registers>
  [[nodiscard]] bool HasRoomFor(const Registers& registers) const {
    size_t more = 0;
    for (const uint16_t reg : registers) {
      more += place_[reg] == kUntouched ? 1 : 0;
    }
    return input_count_ + more <= kMaxMoveInputs && forms_.size() + more <= kMaxMoveOutputs;
  }

  // register = max(register, host).
  void ReachHost(uint16_t reg);
  void Delay(uint16_t reg, DurationNs duration);
  void Raise(uint16_t reg, uint16_t by);  // register = max(register, by)
  void Copy(uint16_t from, uint16_t to);
  void Fold(const FoldedSegment& segment);

  // If all that was followed is that `reg` has reached the host: starts over and returns the host's
  // time since the base of its register.
  std::optional<DurationNs> TakeReach(uint16_t reg);

  // Writes what was followed and starts over; calls write(move). Of the registers from
  // `first_event` on, writes only those for which is_live(register - first_event).
  template <typename IsLive, typename Write>
  void Flush(uint16_t first_event, IsLive is_live, Write write) {
    outputs_.clear();
    for (const uint16_t reg : written_) {
      if (reg < first_event || is_live(static_cast<uint32_t>(reg - first_event))) {
        outputs_.push_back(reg);
      }
    }
    if (!outputs_.empty()) {
      write(Store());
    }
    Restart();
  }

 private:
  static constexpr uint16_t kUntouched = 0xFFFF;

  // An output at a fixed offset from the first one.
  struct Following {
    uint16_t reg = 0;
    DurationNs beyond = 0;
  };

  Form& At(uint16_t reg);
  Form& Writable(uint16_t reg);
  uint32_t Store();
  void ChooseInputs();
  [[nodiscard]] bool DecidesNothing(uint32_t input, uint32_t compute) const;
  void ChooseRows();
  [[nodiscard]] std::optional<DurationNs> BeyondCompute(const Form& form) const;
  void Learn();
  void Restart();

  MoveTape* tape_;
  DurationNs host_ns_ = 0;  // since the base of the host's register
  uint32_t input_count_ = 1;
  std::array<uint16_t, kMaxMoveInputs> inputs_ = {};
  std::vector<uint16_t> place_;  // by register: in forms_
  std::vector<Form> forms_;
  std::vector<uint16_t> touched_;  // registers with forms
  std::vector<bool> is_written_;   // by register
  std::vector<uint16_t> written_;
  std::vector<uint16_t> outputs_;
  std::vector<uint32_t> kept_;  // inputs of the move that is stored
  std::vector<Following> following_;
  KnownTails known_;
};

}  // namespace prism::replayer
