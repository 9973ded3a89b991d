#include "slicer/edit/program_passes.h"

#include <algorithm>

#include "graph/base/intern.h"

namespace prism::slicer {
namespace {

using graph::OpKind;

bool IsForward(std::string_view name) {
  return name == "forward" || name.starts_with("forward chunk") || name.ends_with(".forward");
}

bool IsBackward(std::string_view name) {
  return name == "backward" || name.starts_with("backward chunk");
}

bool IsLayer(std::string_view name) {
  return name.starts_with("layer ");
}

class PassReader {
 public:
  PassReader(const graph::Graph& graph, const graph::Program& program)
      : graph_(graph), program_(program) {}

  ProgramPasses Read() && {
    bool marks_backward = false;
    bool marks_forward = false;
    for (uint32_t op = 0; op < program_.size(); ++op) {
      if (program_.kind[op] == OpKind::kMarker) {
        Move(op);
      }
      passes_.pass.push_back(current_);
      passes_.layer.push_back(open_.empty() ? kNoLayer : layer_);
      marks_backward = marks_backward || current_ == Pass::kBackward;
      marks_forward = marks_forward || current_ == Pass::kForward;
    }
    if (marks_forward && !marks_backward) {
      std::replace(passes_.pass.begin(), passes_.pass.end(), Pass::kNone, Pass::kBackward);
    }
    return std::move(passes_);
  }

 private:
  void Move(uint32_t op) {
    const std::string& name = graph_.strings[program_.signature[op]];
    if ((program_.flags[op] & graph::kMarkerBegin) != 0) {
      Begin(name, op);
    } else {
      End(name, op);
    }
  }

  void Begin(const std::string& name, uint32_t op) {
    if (name.starts_with("micro-batch ")) {
      microbatch_ = name;
    } else if (IsBackward(name) || (IsForward(name) && current_ == Pass::kNone)) {
      current_ = IsBackward(name) ? Pass::kBackward : Pass::kForward;
      pass_ = name;
      nested_ = 1;
    } else if (name == pass_) {
      ++nested_;
    } else if (IsLayer(name) && current_ != Pass::kNone) {
      const size_t chunk = pass_.find(" chunk");
      layer_ = InternValue(passes_.names, name);
      open_.push_back(static_cast<uint32_t>(passes_.spans.size()));
      passes_.spans.push_back(
          {current_,
           microbatch_ + (chunk == std::string::npos ? "" : pass_.substr(chunk)) + " " + name, op,
           op + 1});
    }
  }

  void End(const std::string& name, uint32_t op) {
    if (name == pass_ && --nested_ == 0) {
      current_ = Pass::kNone;
      pass_.clear();
    } else if (IsLayer(name) && !open_.empty()) {
      passes_.spans[open_.back()].end = op + 1;
      open_.pop_back();
    }
  }

  const graph::Graph& graph_;
  const graph::Program& program_;
  ProgramPasses passes_;
  Pass current_ = Pass::kNone;
  std::string pass_;
  int nested_ = 0;  // ranges of the pass's name that are open
  std::string microbatch_;
  uint32_t layer_ = kNoLayer;
  std::vector<uint32_t> open_;  // spans of layers
};

}  // namespace

ProgramPasses PassesOf(const graph::Graph& graph, const graph::Program& program) {
  return PassReader(graph, program).Read();
}

}  // namespace prism::slicer
