#include "shim/observer/overwritten.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <unordered_set>

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include "shim/observer/true_results.h"

namespace prism::shim {
namespace {

constexpr std::string_view kCopy = "aten::copy_";

// These change what a tensor is, not what it holds.
bool KeepsValues(std::string_view op) {
  static const std::unordered_set<std::string_view> ops = {"aten::record_stream", "aten::resize_",
                                                           "aten::set_"};
  return ops.contains(op);
}

// Ops of others may move values by collectives, which are really moved.
bool HasKernel(const c10::OperatorHandle& op) {
  const std::string_view name = op.operator_name().name;
  return name == kCopy || (name.starts_with("aten::") && !KeepsValues(name) &&
                           op.hasKernelForDispatchKey(c10::DispatchKey::CUDA));
}

// A copy may be made without a kernel, from the very bytes that would be forgotten.
bool IsWithinOneStorage(const OverwrittenArguments& overwritten,
                        c10::ArrayRef<const c10::IValue> inputs) {
  return overwritten.is_copy && inputs[0].isTensor() && inputs[1].isTensor() &&
         inputs[0].toTensor().is_alias_of(inputs[1].toTensor());
}

}  // namespace

OverwrittenArguments OverwrittenBy(const at::RecordFunction& function) {
  OverwrittenArguments overwritten;
  const std::optional<c10::OperatorName> name = function.operator_name();
  const std::optional<c10::OperatorHandle> op =
      name ? c10::Dispatcher::singleton().findSchema(*name) : std::nullopt;
  if (!op) {
    return overwritten;
  }
  overwritten.is_copy = name->name == kCopy;
  const bool has_kernel = HasKernel(*op);
  const std::vector<c10::Argument>& arguments = op->schema().arguments();
  for (size_t i = 0; i < arguments.size(); ++i) {
    const bool is_written =
        arguments[i].alias_info() != nullptr && arguments[i].alias_info()->isWrite();
    if (is_written && has_kernel) {
      overwritten.places.push_back(i);
    }
    if (is_written && arguments[i].is_out()) {
      overwritten.first_out = std::min(overwritten.first_out, i);
    }
  }
  return overwritten;
}

void ForgetOverwritten(const OverwrittenArguments& overwritten,
                       c10::ArrayRef<const c10::IValue> inputs) {
  if (overwritten.places.empty() || IsWithinOneStorage(overwritten, inputs)) {
    return;
  }
  for (const size_t place : overwritten.places) {
    const c10::IValue& input = inputs[place];
    if (input.isTensor()) {
      ForgetValue(input.toTensor());
    } else if (input.isTensorList()) {
      for (const c10::IValue& element : input.toListRef()) {
        ForgetValue(element.toTensor());
      }
    }
  }
}

}  // namespace prism::shim
