// Where a program is in its passes, by the markers that it carries: those of the built-in workload
// and of synthesised jobs ("forward", "backward", "micro-batch 3", "layer 5"), or the ranges that
// PyTorch's wrappers write ("DistributedDataParallel.forward").
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"

namespace prism::slicer {

enum class Pass : uint8_t { kNone, kForward, kBackward };

// One layer in one pass: ops begin to end, its markers included.
struct LayerSpan {
  Pass pass = Pass::kNone;
  std::string key;  // micro-batch, chunk and layer
  uint32_t begin = 0;
  uint32_t end = 0;
};

struct ProgramPasses {
  std::vector<Pass> pass;          // by op
  std::vector<uint32_t> layer;     // by op: index into `layers`, kNoLayer outside of any
  std::vector<std::string> names;  // of layers, distinct
  std::vector<LayerSpan> spans;    // of layers, by where they begin
};

inline constexpr uint32_t kNoLayer = 0xFFFFFFFFU;

// Without markers of backward passes everything outside of the forward ranges counts as backward.
ProgramPasses PassesOf(const graph::Graph& graph, const graph::Program& program);

}  // namespace prism::slicer
