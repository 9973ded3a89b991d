// Forward ranges nest: a wrapper's "X.forward" holds those of its parts. So inside a pass another
// forward range is ignored, and those of the pass's own name are counted until it closes itself.
// Ranges need not close in the order in which they were opened: a layer's end closes the last open
// layer, whatever lies between.
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

}  // namespace

void MarkerReader::Read(const std::string& name, bool begins, uint32_t at) {
  if (begins) {
    Begin(name, at);
  } else {
    End(name, at);
  }
}

void MarkerReader::Begin(const std::string& name, uint32_t at) {
  if (name.starts_with("micro-batch ")) {
    microbatch_ = name;
  } else if (IsBackward(name) || (IsForward(name) && pass_ == Pass::kNone)) {
    pass_ = IsBackward(name) ? Pass::kBackward : Pass::kForward;
    pass_name_ = name;
    nested_ = 1;
  } else if (name == pass_name_) {
    ++nested_;
  } else if (IsLayer(name) && pass_ != Pass::kNone) {
    const size_t chunk = pass_name_.find(" chunk");
    layer_ = InternValue(names_, name);
    open_.push_back(static_cast<uint32_t>(spans_.size()));
    spans_.push_back(
        {pass_,
         microbatch_ + (chunk == std::string::npos ? "" : pass_name_.substr(chunk)) + " " + name,
         at, at + 1});
  }
}

void MarkerReader::End(const std::string& name, uint32_t at) {
  if (name == pass_name_ && --nested_ == 0) {
    pass_ = Pass::kNone;
    pass_name_.clear();
  } else if (IsLayer(name) && !open_.empty()) {
    spans_[open_.back()].end = at + 1;
    open_.pop_back();
  }
}

ProgramPasses PassesOf(const graph::Graph& graph, const graph::Program& program) {
  MarkerReader reader;
  ProgramPasses passes;
  bool marks_backward = false;
  bool marks_forward = false;
  for (uint32_t op = 0; op < program.size(); ++op) {
    if (program.kind[op] == OpKind::kMarker) {
      reader.Read(graph.strings[program.signature[op]],
                  (program.flags[op] & graph::kMarkerBegin) != 0, op);
    }
    passes.pass.push_back(reader.pass());
    passes.layer.push_back(reader.layer());
    marks_backward = marks_backward || reader.pass() == Pass::kBackward;
    marks_forward = marks_forward || reader.pass() == Pass::kForward;
  }
  if (marks_forward && !marks_backward) {
    std::replace(passes.pass.begin(), passes.pass.end(), Pass::kNone, Pass::kBackward);
  }
  passes.names = reader.names();
  passes.spans = reader.spans();
  return passes;
}

}  // namespace prism::slicer
