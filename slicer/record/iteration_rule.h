// Where one iteration of a program ends and the next begins.
//
// A program may mark iterations itself, by ranges named "iteration"
// (torch.profiler.record_function). Otherwise an iteration begins with an optimizer step: torch
// marks each with a range "Optimizer.step#...". A step that follows another without training in
// between belongs to the same iteration: several optimizers, or one that steps group by group.
// Training means a matrix product outside of steps, or kernels of an additional thread, such as
// autograd's, anywhere: a step may run the passes itself (a closure, as Lightning passes one), or
// multiply matrices for its own purposes (Muon). A range that appears after steps replaces them (a
// CUDA graph whose replays contain the steps), until Settle().
//
// Steps inside a backward pass (a hook per parameter that steps its own optimizer) do not begin
// one: the iteration begins with the first kernel outside of the pass after them, on the thread
// that multiplies matrices there (a data loader's thread may launch kernels at any time), unless a
// step comes first.
//
// Of a program without iterations (kWholeProgram) all is one, from its first call on.
//
// Steps may take turns (the two networks of a GAN): then an iteration contains several, and begins
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
  // `steps`: optimizer steps per iteration, or graph::kWholeProgram.
  explicit IterationRule(int32_t steps = 1) : steps_(steps) {}

  enum class Edge : uint8_t {
    kNone,
    kBegin,   // the range of an iteration begins with this marker
    kEnd,     // and ends with it
    kBefore,  // an iteration ends, and the next one begins, before this record
  };

  // A marker called `name`, in order with See().
  Edge SeeMarker(const channel::Record& record, const std::string& name);

  // If optimizer steps begin iterations now, they do so to the end.
  void Settle() { settled_ = true; }

  // Any other record: kNone or kBefore.
  Edge See(const channel::Record& record);

  // The program has its own ranges for iterations.
  [[nodiscard]] bool marked_by_program() const { return source_ == Source::kRange; }

  // What begins an iteration, for the user: "" before the first.
  [[nodiscard]] const std::string& description() const { return description_; }

 private:
  enum class Source : uint8_t { kUnknown, kRange, kOptimizer, kBackward };

  [[nodiscard]] bool steps_begin() const {
    return source_ == Source::kOptimizer || source_ == Source::kBackward;
  }

  Edge BeginWhole();
  // A step, or what represents it, begins an iteration if it is its turn.
  Edge BeginBefore(const std::string& step, const std::string& where);

  Source source_ = Source::kUnknown;
  std::string description_;
  int32_t steps_;
  int32_t steps_to_go_ = 0;  // until the next one that begins an iteration
  int open_steps_ = 0;
  uint16_t step_thread_ = 0;
  std::optional<uint16_t> forward_thread_;  // the last that multiplied outside of backward passes
  std::string backward_step_;  // the last in a backward pass, until a kernel follows it
  bool trained_ = false;       // since the last step
  bool settled_ = false;
};

}  // namespace prism::slicer
