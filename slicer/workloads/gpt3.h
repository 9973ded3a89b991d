// The gpt3-layer and gpt3-kernel workloads (workloads.h).
#pragma once

#include <cstdint>

#include "graph/base/status.h"
#include "graph/graph.h"

namespace prism::slicer {

enum class Gpt3Detail : uint8_t { kLayer, kKernel };

// `ranks` is a multiple of 128.
Result<graph::Graph> MakeGpt3(Gpt3Detail detail, int32_t ranks);

}  // namespace prism::slicer
