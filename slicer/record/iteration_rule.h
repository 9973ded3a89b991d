// Where one iteration of a program ends and the next begins.
//
// A program may say so itself, by ranges named "iteration" (torch.profiler.record_function). Else
// an iteration begins with an optimizer step: torch marks each by a range "Optimizer.step#...". A
// step that follows another without training in between belongs to the same iteration: several
// optimizers, or one that steps group by group. Training is a matrix product outside of steps, or
// kernels of a further thread such as autograd's anywhere: a step may run the passes itself (a
// closure, as Lightning gives one), or multiply matrices for its own sake (Muon). A range that
// comes after steps takes over from them (a CUDA graph whose replays hold the steps), until
// Settle().
//
// Steps inside of a backward pass (a hook of each parameter steps an optimizer of its own) begin
// none: the iteration begins with the first kernel outside of the pass after them, on the thread
// that multiplies matrices there (a loader's own may launch kernels at any time), unless a step
// comes first.
//
// Steps may take turns (the two networks of a GAN): then an iteration holds several, and begins
// with every N-th.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "shim/channel/messages.h"

namespace prism::slicer {

inline constexpr const char* kIterationMarker = "iteration";
inline constexpr const char* kOptimizerStepPrefix = "Optimizer.step#";

class IterationRule {
 public:
  // `steps`: optimizer steps an iteration.
  explicit IterationRule(int32_t steps = 1) : steps_(steps) {}

  enum class Edge : uint8_t {
    kNone,
    kBegin,   // the range of an iteration begins with this marker
    kEnd,     // and ends with it
    kBefore,  // an iteration ends, and the next one begins, before this record
  };

  // A marker, in order with See(). `name` is its name.
  Edge SeeMarker(const channel::Record& record, const std::string& name);

  // Optimizer steps, if they begin iterations now, do so to the end.
  void Settle() { settled_ = true; }

  // Any other record: kNone or kBefore.
  Edge See(const channel::Record& record);

  // Iterations have a range of their own.
  [[nodiscard]] bool marked_by_program() const { return source_ == Source::kRange; }

  // What begins an iteration, for the user: "" before the first.
  [[nodiscard]] const std::string& description() const { return description_; }

 private:
  enum class Source : uint8_t { kUnknown, kRange, kOptimizer, kBackward };

  [[nodiscard]] bool steps_begin() const {
    return source_ == Source::kOptimizer || source_ == Source::kBackward;
  }

  // A step, or what stands for it, begins an iteration if it is its turn.
  Edge BeginBefore(const std::string& step, const std::string& where);

  Source source_ = Source::kUnknown;
  std::string description_;
  int32_t steps_;
  int32_t steps_to_go_ = 0;  // until the next that begins an iteration
  int open_steps_ = 0;
  uint16_t step_thread_ = 0;
  std::optional<uint16_t> forward_thread_;  // the last that multiplied outside of backward passes
  std::string backward_step_;  // the last inside of a backward pass, while no kernel is behind it
  bool trained_ = false;       // since the last step
  bool settled_ = false;
};

}  // namespace prism::slicer
