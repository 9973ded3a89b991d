// Matrix products of a profile that notes the shapes of its ops (record_shapes=True): a kernel that
// one of them launched can be costed, so that edits of GPU and precision change it.
#pragma once

#include <string_view>
#include <unordered_map>
#include <vector>

#include "graph/program/signature.h"
#include "slicer/import/kineto/trace_file.h"

namespace prism::slicer {

class ProductShapes {
 public:
  explicit ProductShapes(const KinetoTrace& trace);

  // Of the product in which the call was made; m is 0 where there is none.
  [[nodiscard]] graph::MatmulShape Around(const KinetoRange& call) const;

 private:
  std::unordered_map<int64_t, std::vector<const KinetoProduct*>> of_thread_;  // each by begin
};

// Whether the op's name is that of a product whose shape is known from its inputs.
bool IsProductOp(std::string_view op);

// Whether the kernel computes a product, by the words of cuBLAS, CUTLASS and others.
bool IsProductKernel(std::string_view kernel);

}  // namespace prism::slicer
