// Whether a program that does the same in most of its iterations does something else in every
// so-many-th: an outer step that averages what each rank has learned (DiLoCo, local SGD), one step
// of a GAN's generator to several of its critic.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "slicer/record/recorded_iteration.h"

namespace prism::slicer {

class IterationSequence {
 public:
  // The next iteration of the program.
  void Add(const Iteration& iteration);

  // The least number of iterations, from 2, that the last ones repeat: at least two times as many
  // are seen, and what they do is training, not a line of a log or an evaluation: among them are
  // iterations that differ in the number of optimizer steps or in how much they communicate. None
  // where the last ones all do the same for as long.
  [[nodiscard]] std::optional<int32_t> Period() const;

 private:
  // Iterations that do the same, but for waits.
  struct Kind {
    Iteration iteration;
    int64_t optimizer_steps = 0;
    int64_t transfer_bytes = 0;
  };

  [[nodiscard]] size_t RepeatedFrom(size_t period) const;
  [[nodiscard]] bool TrainsUnequally(size_t period) const;

  std::vector<Kind> kinds_;
  std::vector<size_t> sequence_;  // kinds_, by iteration; a number beyond them is like no other
};

}  // namespace prism::slicer
