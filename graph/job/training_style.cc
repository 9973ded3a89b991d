#include "graph/job/training_style.h"

namespace prism::graph {

DataType ActivationType(Precision precision) {
  switch (precision) {
    case Precision::kFloat16:
      return DataType::kFloat16;
    case Precision::kFloat32:
      return DataType::kFloat32;
    default:
      return DataType::kBfloat16;
  }
}

bool FusesSoftmax(const TrainingStyle& style, int64_t matrices, int64_t keys) {
  constexpr int64_t kMatricesAtOnce = 4;
  constexpr int64_t kFewestKeys = 17;
  constexpr int64_t kMostKeys = 16384;
  return style.fused_softmax && matrices % kMatricesAtOnce == 0 && keys % kMatricesAtOnce == 0 &&
         keys >= kFewestKeys && keys <= kMostKeys;
}

}  // namespace prism::graph
