// What a program does only once, the first time that it runs an iteration: it makes the states of
// its optimizer, buffers, communicators. An iteration that differs from the next one only by such
// work shows that the next one is what the program does from then on.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "slicer/record/recorded_iteration.h"

namespace prism::slicer {

struct FirstTimeWork {
  int64_t ops = 0;
  std::string text;  // the most frequent of them
};

// What `earlier` does besides all that `later` does, in the same order. Null if `later` does
// something else, or if that may be training: products, transfers, large reductions, steps.
std::optional<FirstTimeWork> FindFirstTimeWork(const Iteration& earlier, const Iteration& later);

}  // namespace prism::slicer
