#include "graph/program/signature.h"

namespace prism::graph {

int64_t TensorShape::ElementCount() const {
  int64_t count = 1;
  for (const int64_t dim : dims) {
    count *= dim;
  }
  return count;
}

int64_t TensorShape::Bytes() const {
  return ElementCount() * DataTypeBytes(dtype);
}

}  // namespace prism::graph
