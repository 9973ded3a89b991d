#include "slicer/import/kineto/product_shapes.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "graph/base/lower_case.h"
#include "slicer/import/kineto/collective_words.h"

namespace prism::slicer {
namespace {

// Ops and which input is the first factor; the other one follows.
constexpr std::pair<std::string_view, size_t> kProductOps[] = {
    {"aten::mm", 0}, {"aten::bmm", 0}, {"aten::addmm", 1}, {"aten::baddbmm", 1}};

constexpr std::string_view kProductWords[] = {"gemm", "cutlass", "xmma", "nvjet", "cublas"};

const std::pair<std::string_view, size_t>* OpOf(std::string_view name) {
  const auto* const found =
      std::ranges::find(kProductOps, name, &std::pair<std::string_view, size_t>::first);
  return found == std::end(kProductOps) ? nullptr : found;
}

// [b,] m × k and [b,] k × n in rows are n × m in columns, as cuBLAS has it.
graph::MatmulShape ShapeOfProduct(const KinetoProduct& product) {
  const auto* const op = OpOf(product.name);
  if (op == nullptr || product.inputs == nullptr || product.inputs->dims.size() < op->second + 2) {
    return {};
  }
  const std::vector<int64_t>& a = product.inputs->dims[op->second];
  const std::vector<int64_t>& b = product.inputs->dims[op->second + 1];
  const size_t size = a.size();
  if ((size != 2 && size != 3) || b.size() != size || a.back() != b[size - 2] || a.front() < 1 ||
      a[size - 2] < 1 || a.back() < 1 || b.back() < 1) {
    return {};
  }
  graph::MatmulShape shape;
  shape.m = b.back();
  shape.n = a[size - 2];
  shape.k = a.back();
  shape.batch = size == 3 ? a.front() : 1;
  shape.input = NotedType(product.inputs->type);
  shape.output = shape.input;
  return shape.input == DataType::kUnknown ? graph::MatmulShape() : shape;
}

}  // namespace

ProductShapes::ProductShapes(const KinetoTrace& trace) {
  for (const KinetoProduct& product : trace.products) {
    of_thread_[product.thread].push_back(&product);
  }
}

graph::MatmulShape ProductShapes::Around(const KinetoRange& call) const {
  const auto thread = of_thread_.find(call.thread);
  if (thread == of_thread_.end()) {
    return {};
  }
  const auto after =
      std::ranges::upper_bound(thread->second, call.begin_ns, {}, &KinetoProduct::begin_ns);
  const bool within =
      after != thread->second.begin() &&
      call.begin_ns < (*std::prev(after))->begin_ns + (*std::prev(after))->duration_ns;
  return within ? ShapeOfProduct(**std::prev(after)) : graph::MatmulShape();
}

bool IsProductOp(std::string_view op) {
  return OpOf(op) != nullptr;
}

bool IsProductKernel(std::string_view kernel) {
  const std::string name = LowerCase(kernel);
  return std::ranges::any_of(
      kProductWords, [&](std::string_view word) { return name.find(word) != std::string::npos; });
}

}  // namespace prism::slicer
