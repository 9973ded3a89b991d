#include "slicer/record/block_class.h"

#include <array>
#include <string_view>
#include <utility>

namespace prism::slicer {
namespace {

// Markers that the workload opens while it allocates what they name, and the class they mean.
constexpr std::array<std::pair<std::string_view, std::string_view>, 5> kNamedClasses = {{
    {"parameters", "parameters"},
    {"gradients", "gradients"},
    {"optimizer state", "optimizer"},
    {"buffers", "buffers"},
    {"activations", "activations"},
}};

constexpr std::array<std::string_view, 6> kProfileOrder = {
    "parameters", "gradients", "optimizer", "activations", "temporaries", "buffers"};

// What outlives its iteration is held by the optimizer, is a gradient, or is a buffer of a library
// or of the framework, by the phase that allocated it. What an iteration both allocates and frees
// is an activation if the forward phase (or its repetition under recomputation) that allocated it,
// or that follows, ended in between: it was kept for backward. The rest are temporaries.
std::string ClassInIteration(const BlockLifetime& block, const PassHistory& history) {
  const Phase phase = history.PhaseOf(block.path, block.in_backward);
  const uint32_t first = history.FirstIteration();
  const uint32_t end = block.born < first ? first : history.IterationEnd(block.born);
  if (block.died > end) {
    if (phase == Phase::kOptimizer) {
      return "optimizer";
    }
    return phase == Phase::kBackward ? "gradients" : "buffers";
  }
  if (phase == Phase::kBackward || phase == Phase::kOptimizer) {
    return "temporaries";
  }
  const uint32_t pass_end = phase == Phase::kRecompute ? history.RecomputeEnd(block.born)
                                                       : history.ForwardEnd(block.born);
  return block.died > pass_end ? "activations" : "temporaries";
}

// Whether a block existed before the first iteration and still does when that ends, as parameters
// do, and no backward pass allocated it.
bool IsParameter(const BlockLifetime& block, const PassHistory& history) {
  const uint32_t first = history.FirstIteration();
  if (first == PassHistory::kNever) {
    return true;
  }
  const bool outlives = block.IsLive() || block.died > history.IterationEnd(first);
  return block.born < first && outlives &&
         history.PhaseOf(block.path, block.in_backward) != Phase::kBackward;
}

}  // namespace

// A marker that names a class decides. What is no parameter (including what a trial step before the
// first iteration allocates) is classified by ClassInIteration.
std::string ClassOfBlock(const BlockLifetime& block,
                         bool is_workspace,
                         const PassHistory& history) {
  const std::vector<std::string>& markers = history.Markers(block.path);
  for (auto name = markers.rbegin(); name != markers.rend(); ++name) {
    for (const auto& [marker, memory_class] : kNamedClasses) {
      if (*name == marker) {
        return std::string(memory_class);
      }
    }
  }
  if (is_workspace) {
    return "buffers";
  }
  return IsParameter(block, history) ? "parameters" : ClassInIteration(block, history);
}

std::vector<graph::MemoryClass> InProfileOrder(const std::map<std::string, int64_t>& bytes) {
  std::vector<graph::MemoryClass> classes;
  for (const std::string_view name : kProfileOrder) {
    if (const auto found = bytes.find(std::string(name)); found != bytes.end()) {
      classes.push_back({.name = found->first, .bytes = found->second});
    }
  }
  return classes;
}

}  // namespace prism::slicer
