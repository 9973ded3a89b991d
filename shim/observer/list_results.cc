#include "shim/observer/list_results.h"

#include <cstddef>

#include <ATen/ATen.h>

#include "shim/observer/true_results.h"

namespace prism::shim {
namespace {

constexpr std::string_view kForeachAdd = "aten::_foreach_add_";
constexpr std::string_view kForeachCopy = "aten::_foreach_copy_";
constexpr std::string_view kForeachZero = "aten::_foreach_zero_";

// The new value of one tensor of the list; undefined if it is not known.
at::Tensor NewValue(std::string_view op,
                    c10::ArrayRef<const c10::IValue> inputs,
                    const at::Tensor& target,
                    size_t place) {
  if (op == kForeachZero) {
    return at::zeros(target.sizes(), target.options().device(at::kCPU));
  }
  if (op == kForeachCopy) {
    const at::Tensor source = ReadWritten(inputs[1].toListRef()[place].toTensor());
    return source.defined() ? source.to(target.scalar_type()) : source;
  }
  const at::Tensor before = inputs[1].isInt() ? ReadWritten(target) : at::Tensor();
  return before.defined() ? before.add(inputs[1].toInt()) : before;
}

}  // namespace

bool ListResults::IsKnown(std::string_view op) {
  return op == kForeachAdd || op == kForeachCopy || op == kForeachZero;
}

std::unique_ptr<ListResults> ListResults::Begin(std::string_view op,
                                                c10::ArrayRef<const c10::IValue> inputs) {
  std::unique_ptr<ListResults> call;
  const c10::ArrayRef<c10::IValue> targets = inputs[0].toListRef();
  for (size_t i = 0; i < targets.size(); ++i) {
    const at::Tensor& target = targets[i].toTensor();
    if (!IsSmallInteger(target)) {
      continue;
    }
    const Unobserved guard;
    at::Tensor value = NewValue(op, inputs, target, i);
    if (value.defined()) {
      call = call != nullptr ? std::move(call) : std::make_unique<ListResults>();
      call->results_.emplace_back(target, std::move(value));
    }
  }
  return call;
}

void ListResults::End() const {
  const Unobserved guard;
  for (const auto& [target, value] : results_) {
    WriteResult(value, target);
  }
}

}  // namespace prism::shim
