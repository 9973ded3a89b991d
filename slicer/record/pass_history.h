// When a program's iterations and passes began and ended, in moments: a count of what happened, of
// markers and of the block events that the caller counts with Tick().
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace prism::slicer {

// The part of an iteration that a marker names, by its first word: "forward", "recompute",
// "backward", "optimizer". Everything else is kOther.
enum class Phase : uint8_t { kOther, kForward, kRecompute, kBackward, kOptimizer };

class PassHistory {
 public:
  static constexpr uint32_t kNever = 0xFFFFFFFFU;

  uint32_t Tick() { return ++moment_; }
  [[nodiscard]] uint32_t now() const { return moment_; }

  void BeginMarker(const std::string& name);

  // Threads may close their markers in any order: the innermost of that name is closed.
  void EndMarker(const std::string& name);

  // A block event follows; true if it is the first of a backward pass. If a program does not name
  // its passes, a forward pass ends there.
  bool SeePass(bool in_backward);

  // The open markers, as an argument to the functions below.
  [[nodiscard]] uint32_t path() const { return path_; }
  [[nodiscard]] const std::vector<std::string>& Markers(uint32_t path) const {
    return paths_[path];
  }

  // The phase is that of the program's own range; without one, autograd's.
  [[nodiscard]] Phase PhaseOf(uint32_t path, bool in_backward) const;

  // The moment of the first iteration's beginning; kNever if there was none.
  [[nodiscard]] uint32_t FirstIteration() const;

  // The next end after a moment; kNever if there was none.
  [[nodiscard]] uint32_t IterationEnd(uint32_t moment) const;
  [[nodiscard]] uint32_t ForwardEnd(uint32_t moment) const;
  [[nodiscard]] uint32_t RecomputeEnd(uint32_t moment) const;

 private:
  using Path = std::vector<std::string>;  // markers, outermost first

  void FindPath();

  uint32_t moment_ = 0;
  Path open_;
  std::vector<Path> paths_ = {{}};
  std::map<Path, uint32_t> path_index_ = {{{}, 0}};
  uint32_t path_ = 0;
  bool in_backward_ = false;    // the last block event was
  bool names_forward_ = false;  // the program has ranges for its forward passes
  uint32_t first_iteration_ = kNever;
  std::vector<uint32_t> iteration_ends_;
  std::vector<uint32_t> forward_ends_;
  std::vector<uint32_t> recompute_ends_;
};

}  // namespace prism::slicer
