#include "graph/training_style.h"

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

}  // namespace prism::graph
