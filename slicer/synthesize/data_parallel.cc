#include "slicer/synthesize/data_parallel.h"

namespace prism::slicer {

const Block& BlockOfCall(const UnitContent& content, StepKind pass) {
  switch (pass) {
    case StepKind::kForward:
      return content.blocks.forward;
    case StepKind::kInputGradient:
      return content.blocks.backward_input;
    case StepKind::kWeightGradient:
      return content.blocks.backward_weight;
    default:
      return content.blocks.backward;
  }
}

uint32_t IndexOfCall(const UnitContent& content, StepKind pass) {
  switch (pass) {
    case StepKind::kForward:
      return content.forward;
    case StepKind::kInputGradient:
      return content.backward_input;
    case StepKind::kWeightGradient:
      return content.backward_weight;
    default:
      return content.backward;
  }
}

}  // namespace prism::slicer
