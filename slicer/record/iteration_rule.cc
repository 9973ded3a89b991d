#include "slicer/record/iteration_rule.h"

#include <fmt/format.h>

namespace prism::slicer {

void IterationRule::See(const channel::Record& record) {
  using channel::RecordKind;
  const bool product = record.kind == RecordKind::kMatmul;
  const bool further_thread =
      (product || record.kind == RecordKind::kKernel) && record.thread != step_thread_;
  trained_ = trained_ || further_thread || (product && open_steps_ == 0);
}

IterationRule::Edge IterationRule::SeeMarker(const channel::Record& record,
                                             const std::string& name) {
  const bool begin = record.marker.begin != 0;
  if (name == kIterationMarker && (source_ != Source::kOptimizer || (begin && !settled_))) {
    source_ = Source::kRange;
    description_ = fmt::format("the range \"{}\"", name);
    return begin ? Edge::kBegin : Edge::kEnd;
  }
  if (source_ == Source::kRange || !name.starts_with(kOptimizerStepPrefix)) {
    return Edge::kNone;
  }
  if (!begin) {
    open_steps_ -= open_steps_ > 0 ? 1 : 0;
    return Edge::kNone;
  }
  const bool is_edge = open_steps_ == 0 && (trained_ || source_ == Source::kUnknown);
  ++open_steps_;
  if (!is_edge) {
    return Edge::kNone;
  }
  source_ = Source::kOptimizer;
  step_thread_ = record.thread;
  trained_ = false;
  if (steps_to_go_ > 0) {
    --steps_to_go_;
    return Edge::kNone;
  }
  steps_to_go_ = steps_ - 1;
  description_ = steps_ == 1 ? fmt::format("the range \"{}\"", name)
                             : fmt::format("one in {} of the ranges \"{}\"", steps_, name);
  return Edge::kBefore;
}

}  // namespace prism::slicer
