// The line of the program's log after an iteration, in the form of Megatron's. Free of libtorch,
// whose headers bring another version of fmt.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace prism::launch {

struct IterationLog {
  int32_t iteration = 0;  // counts from 1
  int32_t iterations = 0;
  double milliseconds = 0;
  std::optional<double> loss;  // where this rank knows it
  double grad_norm = 0;
  int64_t max_allocated_bytes = 0;
};

// Without a line end.
std::string IterationLine(const IterationLog& log);

}  // namespace prism::launch
