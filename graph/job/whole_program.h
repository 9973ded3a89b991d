// Programs without iterations: a script of collectives, an inference, a test.
#pragma once

#include <cstdint>

namespace prism::graph {

// In place of ProgramFacts::steps_per_iteration: all of the program counts as one iteration.
inline constexpr int32_t kWholeProgram = -1;

}  // namespace prism::graph
