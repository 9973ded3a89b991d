#include "replayer/cost/grouped_product.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "graph/base/divide.h"

namespace prism::replayer {
namespace {

// The average share that each of `groups` groups has of a dimension that they divide. Tokens are
// routed: even if the mean is not a multiple of what matrix units load at once, rows in memory are.
int64_t ShareOf(int64_t whole, int64_t groups) {
  constexpr int64_t kUnit = 16;  // bytes, of the smallest type
  return RoundUp(DivideUp(whole, groups), kUnit);
}

// Inductor's templates of products are given the factors, maybe after a bias, and the result last.
// The second factor may lie transposed.
std::optional<graph::MatmulShape> FindTemplate(const std::vector<graph::TensorShape>& inputs) {
  const auto is_factor = [](const graph::TensorShape& input) { return input.dims.size() >= 2; };
  const auto first = std::ranges::find_if(inputs, is_factor);
  const auto second =
      first == inputs.end() ? first : std::find_if(first + 1, inputs.end(), is_factor);
  if (second == inputs.end() || second + 1 == inputs.end() ||
      inputs.back().dims.size() != first->dims.size()) {
    return std::nullopt;
  }
  const std::vector<int64_t>& result = inputs.back().dims;
  const bool batched = result.size() == 3;
  const int64_t k = first->dims.back();
  if (first->dims[batched ? 1 : 0] != result[batched ? 1 : 0] ||
      second->ElementCount() != (batched ? result[0] : 1) * k * result.back()) {
    return std::nullopt;
  }
  return graph::MatmulShape{.m = result.back(),
                            .n = result[batched ? 1 : 0],
                            .k = k,
                            .batch = batched ? result[0] : 1,
                            .input = first->dtype,
                            .output = inputs.back().dtype};
}

}  // namespace

std::optional<graph::MatmulShape> FindGroupedProduct(const KernelView& view) {
  if (view.kernel.starts_with("triton_tem_") && view.kernel.find("mm") != std::string_view::npos) {
    return FindTemplate(view.signature.inputs);
  }
  const std::string_view op = BareOpName(view.framework_op);
  const auto& inputs = view.signature.inputs;
  if (op == "_scaled_mm" && view.kernel.find("cutlass") != std::string_view::npos &&
      inputs.size() >= 2 && inputs[0].dims.size() == 2 && inputs[1].dims.size() == 2) {
    return graph::MatmulShape{.m = inputs[1].dims[1],
                              .n = inputs[0].dims[0],
                              .k = inputs[0].dims[1],
                              .input = inputs[0].dtype,
                              .output = DataType::kBfloat16};
  }
  if ((op != "_grouped_mm" && op != "_scaled_grouped_mm") || inputs.size() < 2 ||
      view.kernel.find("prepare_grouped_gemm_data") != std::string_view::npos) {
    return std::nullopt;
  }
  const std::vector<int64_t>& a = inputs[0].dims;
  const std::vector<int64_t>& b = inputs[1].dims;
  const auto ends =
      std::find_if(inputs.begin() + 2, inputs.end(), [](const graph::TensorShape& input) {
        return input.dtype == DataType::kInt32 && input.dims.size() == 1;
      });
  const bool whole = a.size() == 3 && b.size() == 3;  // without a list
  if (a.size() < 2 || a.size() > 3 || b.size() < 2 || b.size() > 3 ||
      (!whole && (ends == inputs.end() || ends->dims[0] == 0))) {
    return std::nullopt;
  }
  graph::MatmulShape shape;
  shape.batch = whole ? a[0] : ends->dims[0];
  shape.m = b.back();
  shape.n = a[a.size() - 2];
  shape.k = a.back();
  if (a.size() == 2 && b.size() == 3) {
    shape.n = DivideUp(shape.n, shape.batch);  // rows
  } else if (a.size() == 3 && b.size() == 2) {
    shape.m = ShareOf(shape.m, shape.batch);  // columns
  } else if (!whole) {
    shape.k = ShareOf(shape.k, shape.batch);
  }
  shape.input = inputs[0].dtype;
  shape.output = DataTypeBytes(shape.input) == 1 ? DataType::kBfloat16 : shape.input;
  return shape;
}

}  // namespace prism::replayer
