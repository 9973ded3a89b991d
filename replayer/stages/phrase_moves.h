// What a stage does between two meetings with others, as max-plus matrices: registers (the host's
// time, tails of streams, event slots) from where they stood before.
//
//   out'[i] = max over j of in[j] + m[j][i]
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "graph/base/time.h"
#include "graph/job_program.h"
#include "replayer/stages/block_fold.h"
#include "replayer/stages/stream_set.h"

namespace prism::replayer {

// Numbers of a stage's registers. Behind the slots: events inside the block being written.
inline constexpr uint16_t kHostRegister = 0;
constexpr uint16_t TailRegister(uint16_t stream) {
  return static_cast<uint16_t>(1 + stream);
}
inline constexpr uint16_t kFirstSlotRegister = 1 + graph::kStageStreamCount;

// A run counts in halves of a nanosecond: the odd half is a mark (phrase_run.h).
constexpr DurationNs Halves(DurationNs duration) {
  return 2 * duration;
}

inline constexpr uint32_t kMaxMoveInputs = 8;
inline constexpr uint32_t kMaxMoveOutputs = 64;

// Where compute waits for all else in the end, the other streams end after it by fixed times: a
// move works out the compute stream's tail, and theirs by one sum each.
struct Move {
  // Where its inputs begin in MoveTape::registers; its outputs come next, then those that follow
  // from the first output.
  uint32_t registers = 0;
  // In MoveTape::entries: by output and input; then by how much those that follow are beyond the
  // first output.
  uint32_t matrix = 0;
  uint16_t inputs = 0;
  uint16_t outputs = 0;
  uint16_t following = 0;
  uint16_t code = 0;  // that applies it, by inputs and outputs
};

// What is known of tails wherever this code runs, by stream. An input of a move that cannot decide
// any output is left out of it.
struct KnownTails {
  StreamSet behind = 0;  // at or after the compute stream's
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

// Follows ops in forms and writes a move wherever what follows needs registers.
class MoveWriter {
 public:
  // A time as a function of the inputs.
  using Form = std::array<DurationNs, kMaxMoveInputs>;

  explicit MoveWriter(MoveTape* tape) : tape_(tape) {}

  void Reset(size_t registers, const KnownTails& known);

  // Of registers before the next op; moves that are not written yet count as done.
  [[nodiscard]] const KnownTails& known() const { return known_; }
  // A tail is moved on by something else than a move, or set to minus infinity.
  void TailMoved(uint16_t reg);
  void TailCleared(uint16_t reg);

  // As if `duration` went by on the host.
  void AddHost(DurationNs duration) { host_ns_ += duration; }
  [[nodiscard]] DurationNs host_ns() const { return host_ns_; }

  // Whether those registers may be used beside the current ones without a move in between.
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

  // Starts over where all that was followed is that `reg` has reached the host, whose time since
  // the base of its register this gives.
  std::optional<DurationNs> TakeReach(uint16_t reg);

  // Writes what was followed and starts over; calls write(move). Of registers from `first_event` on
  // only those for which is_live(register - first_event).
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

  // An output that follows from the first one.
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
