// Which pass each op of a program belongs to, by the program's markers: those of the built-in
// workload and of synthesised jobs ("forward", "backward", "micro-batch 3", "layer 5"), or the
// ranges that PyTorch's wrappers write ("DistributedDataParallel.forward").
#pragma once

#include <cstdint>
#include <string>
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

// The same from a sequence of markers, without a program.
class MarkerReader {
 public:
  // A range of that name begins or ends; `at`: its position, for the spans.
  void Read(const std::string& name, bool begins, uint32_t at);

  [[nodiscard]] Pass pass() const { return pass_; }
  [[nodiscard]] uint32_t layer() const { return open_.empty() ? kNoLayer : layer_; }
  [[nodiscard]] const std::vector<std::string>& names() const { return names_; }
  [[nodiscard]] const std::vector<LayerSpan>& spans() const { return spans_; }

 private:
  void Begin(const std::string& name, uint32_t at);
  void End(const std::string& name, uint32_t at);

  std::vector<std::string> names_;
  std::vector<LayerSpan> spans_;
  Pass pass_ = Pass::kNone;
  std::string pass_name_;
  int nested_ = 0;  // ranges of the pass's name that are open
  std::string microbatch_;
  uint32_t layer_ = kNoLayer;
  std::vector<uint32_t> open_;  // spans of layers
};

// Without markers of backward passes everything outside the forward ranges counts as backward.
ProgramPasses PassesOf(const graph::Graph& graph, const graph::Program& program);

}  // namespace prism::slicer
