// What a program does in successive iterations: whether every n-th of them is different (an outer
// step that averages what each rank has learned, as in DiLoCo and local SGD; one step of a GAN's
// generator per several of its critic), and which are irregular.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "slicer/record/recorded_iteration.h"

namespace prism::slicer {

// What an iteration does beside training, by what it has more of than the steady one: copies to the
// host, forward passes, a few small reads or collectives. kLast: something else, at the very end.
enum class OddSort : uint8_t { kCheckpoint, kEvaluation, kLogging, kLast, kOther };

// One iteration of each odd kind, by number; -1: none.
inline constexpr size_t kMaxOddKinds = 4;
using OddNumbers = std::array<int32_t, kMaxOddKinds>;
inline constexpr OddNumbers kNoOdd = {-1, -1, -1, -1};

// Iterations that do the same.
struct OddKind {
  OddSort sort = OddSort::kOther;
  std::vector<int32_t> numbers;  // ascending

  bool operator==(const OddKind&) const = default;
};

// Iterations after the recorded one that do something different from it.
struct OddIterations {
  std::vector<int32_t> numbers;  // ascending
  // For the user: how many of how many there are, and where the first differs; "" if none.
  std::string text;
  std::vector<OddKind> kinds;  // by first number
  int32_t seen = 0;            // iterations from the recorded one on
};

class IterationSequence {
 public:
  // The next iteration of the program.
  void Add(int32_t number, const Iteration& iteration);

  // The smallest number of iterations, at least 2, that the last ones repeat: over half of all that
  // were seen, and at least four times, since random sequences repeat themselves now and then. What
  // they do must also be training, not a log line, an evaluation (which multiplies matrices) or a
  // checkpoint (which gathers): among them are iterations that differ in the number of optimizer
  // steps, one of which steps without a backward pass (an outer optimizer that multiplies matrices
  // for its own purposes), or that have the same products but differ in how much they reduce over
  // ranks.
  [[nodiscard]] std::optional<int32_t> Period() const;

  // Further iterations may show a period, or that what looks like one is not.
  [[nodiscard]] bool MayShowPeriod() const;

  // The last one that was added is the first from iteration `steady` on of an odd kind.
  [[nodiscard]] bool IsFirstOfOddKind(int32_t steady) const;

  // Those that do something different from iteration `steady`. `ended`: the program has.
  [[nodiscard]] OddIterations OddOnes(int32_t steady, Rank rank, bool ended) const;

 private:
  // Iterations that do the same, except for waits.
  struct Kind {
    Iteration iteration;
    int64_t optimizer_steps = 0;
    int64_t reduced_bytes = 0;
    int64_t products = 0;
    int64_t backward_passes = 0;  // 1: some
    int64_t backward_kernels = 0;
    int64_t host_bytes = 0;  // copied from the device to the host
    int64_t pause_ns = 0;    // that the host slept
  };

  [[nodiscard]] size_t RepeatedFrom(size_t period) const;
  [[nodiscard]] size_t FindCandidate() const;
  [[nodiscard]] bool TrainsUnequally(size_t period) const;
  [[nodiscard]] std::string Difference(size_t kind, size_t steady) const;
  [[nodiscard]] OddSort SortOf(size_t kind, size_t steady) const;
  [[nodiscard]] std::vector<OddKind> OddKinds(size_t begin, bool ended) const;

  std::vector<Kind> kinds_;
  std::vector<size_t> sequence_;  // kinds_, by iteration; a number beyond them equals no other
  int32_t first_ = 0;             // the number of its first
  // The possible period: the one repeated for longest, at least twice. 1: none.
  size_t candidate_ = 1;
};

}  // namespace prism::slicer
