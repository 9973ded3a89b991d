// What lives in host memory instead of on the device, and when it comes back. One rule for both
// edits of recorded programs and synthesised jobs (slicer/edit/), and for the memory of pipeline
// stages (replayer/memory/).
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace prism::graph {

enum class Offload : uint8_t { kNone, kOptimizer, kActivations, kAll };

const char* OffloadName(Offload offload);  // "none", "optimizer", "activations", "all"
std::optional<Offload> OffloadNamed(std::string_view name);

constexpr bool OffloadsOptimizer(Offload offload) {
  return offload == Offload::kOptimizer || offload == Offload::kAll;
}

constexpr bool OffloadsActivations(Offload offload) {
  return offload == Offload::kActivations || offload == Offload::kAll;
}

// A part of a program that uses a piece: the states of one launch of an update, the activations of
// one layer and micro-batch.
struct PieceTouch {
  uint32_t piece = 0;
  bool needs = false;   // it must be on the device before the part
  bool leaves = false;  // it is copied out after it
};

// For each touch, in program order, the pieces that are copied in before it. Pieces are copied in
// the order in which they are needed, at most `prefetch` ahead of the one in use, and not before
// they were copied out; a piece whose first touch needs it starts in host memory.
std::vector<std::vector<uint32_t>> FetchesOf(const std::vector<PieceTouch>& touches,
                                             int64_t prefetch);

}  // namespace prism::graph
