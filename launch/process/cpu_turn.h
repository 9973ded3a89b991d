// How fast a core runs code like an interpreter's: the measure by which host times are carried from
// one CPU to another.
#pragma once

#include <string>

namespace prism::launch {

// CPU time of a turn of a fixed loop, nanoseconds: the least of many, so that a busy machine gives
// the same. A turn is 1,000 steps of a machine of 8 instructions with a stack, whose program has no
// pattern that a branch predictor could learn as a whole; everything it touches fits a core's
// cache.
double MeasureCpuTurn();

// "AMD EPYC 7763 64-Core Processor"; "" if it is not known.
std::string CpuName();

}  // namespace prism::launch
