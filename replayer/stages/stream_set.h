// Streams of a stage as bits.
#pragma once

#include <cstdint>

#include "graph/program/job_program.h"

namespace prism::replayer {

using StreamSet = uint32_t;
static_assert(graph::kStageStreamCount <= 32);

constexpr StreamSet Bit(uint16_t stream) {
  return StreamSet{1} << stream;
}

}  // namespace prism::replayer
