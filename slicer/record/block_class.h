// What a block of the caching allocator is for, inferred from when it was allocated and how long it
// lived. Needs the block's whole lifetime, hence is asked at the end.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "slicer/record/pass_history.h"

namespace prism::slicer {

// Moments and markers are those of a PassHistory.
struct BlockLifetime {
  uint32_t born = 0;
  uint32_t died = PassHistory::kNever;
  uint32_t path = 0;
  bool in_backward = false;

  [[nodiscard]] bool IsLive() const { return died == PassHistory::kNever; }
};

// "parameters", "gradients", "optimizer", "activations", "temporaries" or "buffers".
// `is_workspace`: cuBLAS's (slicer/record/blas_workspaces.h).
std::string ClassOfBlock(const BlockLifetime& block, bool is_workspace, const PassHistory& history);

// Bytes by class, in the order of a profile.
std::vector<graph::MemoryClass> InProfileOrder(const std::map<std::string, int64_t>& bytes);

}  // namespace prism::slicer
