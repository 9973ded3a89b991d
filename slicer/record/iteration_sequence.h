// What a program does in its iterations, one after the other: whether every so-many-th of them is
// something else (an outer step that averages what each rank has learned, as of DiLoCo and local
// SGD; one step of a GAN's generator to several of its critic), and which are odd.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "slicer/record/recorded_iteration.h"

namespace prism::slicer {

// Iterations that do something else than the one that is recorded, after it.
struct OddIterations {
  std::vector<int32_t> numbers;  // ascending
  // For the user: how many of how many there are, and where the first differs. "" if there is none.
  std::string text;
};

class IterationSequence {
 public:
  // The next iteration of the program.
  void Add(int32_t number, const Iteration& iteration);

  // The least number of iterations, from 2, that the last ones repeat: for half of all that were
  // seen, and four times at least, since what is drawn at random repeats itself now and then. And
  // what they do is training, not a line of a log, an evaluation (which multiplies matrices) or a
  // checkpoint (which gathers): among them are iterations that differ in the number of optimizer
  // steps, of which one steps without a backward pass (an outer optimizer that multiplies matrices
  // for its own sake), or that with the same products differ in how much they reduce over ranks.
  [[nodiscard]] std::optional<int32_t> Period() const;

  // Further iterations may show a period, or that what looks like one is none.
  [[nodiscard]] bool MayShowPeriod() const;

  // Of those that do something else than number `steady`.
  [[nodiscard]] OddIterations OddOnes(int32_t steady, Rank rank) const;

 private:
  // Iterations that do the same, but for waits.
  struct Kind {
    Iteration iteration;
    int64_t optimizer_steps = 0;
    int64_t reduced_bytes = 0;
    int64_t products = 0;
    int64_t backward_passes = 0;  // 1: some
  };

  [[nodiscard]] size_t RepeatedFrom(size_t period) const;
  [[nodiscard]] size_t FindCandidate() const;
  [[nodiscard]] bool TrainsUnequally(size_t period) const;
  [[nodiscard]] std::string Difference(size_t kind, size_t steady) const;

  std::vector<Kind> kinds_;
  std::vector<size_t> sequence_;  // kinds_, by iteration; a number beyond them is like no other
  int32_t first_ = 0;             // the number of its first
  // What may be a period: the one that is repeated for longest, two times at least. 1: none.
  size_t candidate_ = 1;
};

}  // namespace prism::slicer
