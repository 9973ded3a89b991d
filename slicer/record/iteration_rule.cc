// Everything here is decided when a record arrives, without looking ahead: whether a step begins an
// iteration depends only on whether anything was trained since the last one. A step in a backward
// pass is only remembered, since more of the pass may follow; the iteration begins at the first
// kernel after it that is on the forward thread and outside of the pass. What begins iterations is
// replaced in one direction only (backward, optimizer, range), so the rule cannot swing.
#include "slicer/record/iteration_rule.h"

#include <utility>

#include <fmt/format.h>

#include "graph/job/whole_program.h"

namespace prism::slicer {

IterationRule::Edge IterationRule::BeginBefore(const std::string& step, const std::string& where) {
  if (steps_to_go_ > 0) {
    --steps_to_go_;
    return Edge::kNone;
  }
  steps_to_go_ = steps_ - 1;
  description_ = steps_ == 1 ? fmt::format("the range \"{}\"{}", step, where)
                             : fmt::format("one in {} of the ranges \"{}\"{}", steps_, step, where);
  return Edge::kBefore;
}

IterationRule::Edge IterationRule::BeginWhole() {
  const bool has_begun = std::exchange(source_, Source::kOptimizer) != Source::kUnknown;
  description_ = "the first call of the program";
  return has_begun ? Edge::kNone : Edge::kBefore;
}

IterationRule::Edge IterationRule::See(const channel::Record& record) {
  using channel::RecordKind;
  if (steps_ == graph::kWholeProgram) {
    return BeginWhole();
  }
  const bool product = record.kind == RecordKind::kMatmul;
  const bool kernel = product || record.kind == RecordKind::kKernel;
  const bool in_backward = (record.flags & channel::kInBackward) != 0;
  trained_ = trained_ || (kernel && record.thread != step_thread_) || (product && open_steps_ == 0);
  if (product && !in_backward) {
    forward_thread_ = record.thread;
  }
  const bool may_begin = source_ == Source::kUnknown || source_ == Source::kBackward;
  if (!kernel || in_backward || !may_begin || backward_step_.empty() ||
      record.thread != forward_thread_.value_or(record.thread)) {
    return Edge::kNone;
  }
  source_ = Source::kBackward;
  return BeginBefore(std::exchange(backward_step_, ""),
                     " inside a backward pass, after which the next kernel comes first");
}

IterationRule::Edge IterationRule::SeeMarker(const channel::Record& record,
                                             const std::string& name) {
  if (steps_ == graph::kWholeProgram) {
    return BeginWhole();
  }
  const bool begin = record.marker.begin != 0;
  if (name == kIterationMarker && (!steps_begin() || (begin && !settled_))) {
    source_ = Source::kRange;
    description_ = fmt::format("the range \"{}\"", name);
    return begin ? Edge::kBegin : Edge::kEnd;
  }
  if (source_ == Source::kRange || !name.starts_with(kOptimizerStepPrefix)) {
    return Edge::kNone;
  }
  if (record.marker.in_backward != 0) {
    backward_step_ = name;
    return Edge::kNone;
  }
  if (!begin) {
    open_steps_ -= open_steps_ > 0 ? 1 : 0;
    return Edge::kNone;
  }
  const bool takes_over =
      source_ == Source::kUnknown || (source_ == Source::kBackward && !settled_);
  const bool follows = source_ == Source::kOptimizer && trained_;
  const bool is_edge = open_steps_ == 0 && (takes_over || follows);
  ++open_steps_;
  if (!is_edge) {
    return Edge::kNone;
  }
  source_ = Source::kOptimizer;
  step_thread_ = record.thread;
  trained_ = false;
  return BeginBefore(name, "");
}

}  // namespace prism::slicer
