#include "shim/observer/distinct_rule.h"

#include <algorithm>
#include <cstddef>

#include <ATen/ATen.h>

#include "shim/observer/observer_calls.h"
#include "shim/observer/true_results.h"

namespace prism::shim {
namespace {

constexpr std::string_view kUnique = "aten::_unique2";

// Along which axis whole slices are compared, if not all elements.
std::optional<int64_t> AxisOf(std::string_view op, c10::ArrayRef<const c10::IValue> inputs) {
  if (op == kUnique) {
    return std::nullopt;
  }
  const size_t place = op == "aten::unique_consecutive" ? 3 : 1;
  return place < inputs.size() && inputs[place].isInt()
             ? std::optional<int64_t>(inputs[place].toInt())
             : std::nullopt;
}

int64_t SizeAlong(const at::Tensor& tensor, std::optional<int64_t> axis) {
  return axis ? tensor.size(*axis) : tensor.numel();
}

// The kernel for truth values asks how many are true instead.
bool CountsTrue(std::string_view op, const at::Tensor& searched) {
  return op == kUnique && searched.scalar_type() == at::kBool;
}

int64_t AssumedCount(std::string_view op, const at::Tensor& searched, int64_t size) {
  constexpr int64_t kValuesOfByte = 256;
  if (CountsTrue(op, searched)) {
    return size / 2;
  }
  return op == kUnique && searched.element_size() == 1 ? std::min(size, kValuesOfByte) : size;
}

}  // namespace

bool FindsDistinct(std::string_view op) {
  return op == kUnique || op == "aten::unique_dim" || op == "aten::unique_consecutive" ||
         op == "aten::unique_dim_consecutive";
}

int64_t DistinctCount(std::string_view op,
                      c10::ArrayRef<const c10::IValue> inputs,
                      const at::Tensor& values) {
  const at::Tensor& searched = inputs[0].toTensor();
  return CountsTrue(op, searched) ? searched.count_nonzero().item<int64_t>()
                                  : SizeAlong(values, AxisOf(op, inputs));
}

std::unique_ptr<AssumedDistinct> AssumedDistinct::Begin(std::string_view op,
                                                        c10::ArrayRef<const c10::IValue> inputs) {
  if (!FindsDistinct(op) || !inputs[0].isTensor() || !inputs[0].toTensor().is_cuda() ||
      inputs[0].toTensor().numel() == 0) {
    return nullptr;
  }
  const at::Tensor& searched = inputs[0].toTensor();
  auto search = std::make_unique<AssumedDistinct>();
  search->axis_ = AxisOf(op, inputs);
  search->searched_ = SizeAlong(searched, search->axis_);
  const int64_t count = AssumedCount(op, searched, search->searched_);
  prism_shim_answer_read(&count);
  return search;
}

void AssumedDistinct::End(const std::vector<c10::IValue>& outputs) const {
  prism_shim_answer_read(nullptr);
  prism_shim_count("distinct_by_rule");
  const Unobserved guard;
  const int64_t found = SizeAlong(outputs[0].toTensor(), axis_);
  const at::Tensor inverse = (at::arange(searched_) * found).floor_divide_(searched_);
  const at::Tensor& inverse_output = outputs[1].toTensor();
  if (inverse_output.numel() == searched_) {
    WriteResult(inverse.view(inverse_output.sizes()), inverse_output);
  }
  if (outputs[2].toTensor().numel() == found) {
    WriteResult(inverse.bincount(), outputs[2].toTensor());
  }
}

}  // namespace prism::shim
