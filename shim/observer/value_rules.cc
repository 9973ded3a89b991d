#include "shim/observer/value_rules.h"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <ATen/record_function.h>

#include "shim/observer/distinct_rule.h"
#include "shim/observer/list_results.h"
#include "shim/observer/observer_calls.h"
#include "shim/observer/overwritten.h"
#include "shim/observer/random_rule.h"
#include "shim/observer/routing_rule.h"
#include "shim/observer/true_results.h"

namespace prism::shim {
namespace {

enum class Rule {
  kFill,
  kZero,
  kArange,
  kRandom,
  kPermutation,
  kTrue,
  kCompute,
  kLists,
  kSelect,
  kDistinct,
  kParts
};

// What the end of a call needs: its inputs are gone by then, its outputs do not exist before.
struct RuleScope : at::ObserverContext {
  Rule rule = Rule::kTrue;
  c10::Scalar start;
  c10::Scalar step;
  std::string op;                        // kTrue
  std::unique_ptr<TrueResults> results;  // kCompute
  std::unique_ptr<ListResults> lists;
  std::unique_ptr<AssumedDistinct> distinct;
  std::unique_ptr<KnownParts> parts;
  int64_t choices = 0;  // kSelect: among that many, along this axis
  int64_t axis = -1;
  int64_t dims = 0;  // of what is chosen from
};

std::optional<Rule> RuleOf(std::string_view name) {
  static const std::unordered_map<std::string_view, Rule> rules = {
      {"aten::fill_", Rule::kFill},           {"aten::zero_", Rule::kZero},
      {"aten::arange", Rule::kArange},        {"aten::all", Rule::kTrue},
      {"aten::isfinite", Rule::kTrue},        {"aten::random_", Rule::kRandom},
      {"aten::randperm", Rule::kPermutation},
  };
  const auto found = rules.find(name);
  if (found != rules.end()) {
    return found->second;
  }
  if (ListResults::IsKnown(name)) {
    return Rule::kLists;
  }
  return TrueResults::IsKnown(name) ? std::optional<Rule>(Rule::kCompute) : std::nullopt;
}

// What is to be done at calls of an op.
struct Plan {
  std::string name;
  std::optional<Rule> rule;
  OverwrittenArguments overwritten;
};

// Overloads have names at addresses of their own; an address may be reused by another name. One
// cache per thread: no lock.
const Plan& PlanOf(const at::RecordFunction& function) {
  thread_local std::unordered_map<const char*, Plan> plans;
  Plan& plan = plans[function.name()];
  if (plan.name != function.name()) {
    plan = {function.name(), RuleOf(function.name()), OverwrittenBy(function)};
  }
  return plan;
}

bool IsSmallAndDense(const c10::IValue& value) {
  if (!value.isTensor() || !value.toTensor().defined() || !value.toTensor().is_cuda()) {
    return false;
  }
  const at::Tensor& tensor = value.toTensor();
  return tensor.layout() == at::kStrided && !tensor.key_set().has(c10::DispatchKey::Python) &&
         tensor.has_storage() && tensor.numel() > 0 && tensor.nbytes() <= kMaxRuleBytes &&
         tensor.is_non_overlapping_and_dense();
}

template <typename Element>
Element ElementOf(const c10::Scalar& scalar) {
  if constexpr (std::is_integral_v<Element>) {
    return static_cast<Element>(scalar.isFloatingPoint() ? static_cast<int64_t>(scalar.toDouble())
                                                         : scalar.toLong());
  } else if constexpr (std::is_same_v<Element, double>) {
    return scalar.toDouble();
  } else {
    return static_cast<Element>(static_cast<float>(scalar.toDouble()));
  }
}

template <typename Element, typename Value>
void WriteAs(const at::Tensor& tensor, const Value& value) {
  const auto count = static_cast<size_t>(tensor.numel());
  std::vector<Element> elements;
  elements.reserve(count);
  for (size_t i = 0; i < count; ++i) {
    elements.push_back(ElementOf<Element>(value(i)));
  }
  prism_shim_write(tensor.data_ptr(), elements.data(), count * sizeof(Element));
}

// Writes value(i) for element i; dense tensors of one value need no order.
template <typename Value>
void Write(const at::Tensor& tensor, const Value& value) {
  switch (tensor.scalar_type()) {
    case at::kBool:
      return WriteAs<uint8_t>(tensor,
                              [&](size_t i) { return c10::Scalar(value(i).toBool() ? 1 : 0); });
    case at::kByte:
      return WriteAs<uint8_t>(tensor, value);
    case at::kChar:
      return WriteAs<int8_t>(tensor, value);
    case at::kShort:
      return WriteAs<int16_t>(tensor, value);
    case at::kInt:
      return WriteAs<int32_t>(tensor, value);
    case at::kLong:
      return WriteAs<int64_t>(tensor, value);
    case at::kHalf:
      return WriteAs<at::Half>(tensor, value);
    case at::kBFloat16:
      return WriteAs<at::BFloat16>(tensor, value);
    case at::kFloat:
      return WriteAs<float>(tensor, value);
    case at::kDouble:
      return WriteAs<double>(tensor, value);
    default:
      prism_shim_count("value_rules_not_applied");
  }
}

bool IsRealNumber(const c10::IValue& value) {
  return value.isInt() || value.isDouble() || value.isBool();
}

c10::Scalar NumberOf(const c10::IValue& value) {
  return value.isDouble() ? c10::Scalar(value.toDouble())
                          : c10::Scalar(value.isBool() ? int64_t{value.toBool()} : value.toInt());
}

// Of integers with others between them, as a column has.
void WriteFillOfView(const c10::IValue& target, const c10::Scalar& value) {
  if (target.isTensor() && IsSmallInteger(target.toTensor())) {
    const at::Tensor& tensor = target.toTensor();
    const Unobserved guard;
    WriteResult(at::full(tensor.sizes(), value, tensor.options().device(at::kCPU)), tensor);
  }
}

void WriteZero(const c10::IValue& target) {
  if (!IsSmallAndDense(target)) {
    return WriteFillOfView(target, 0);
  }
  const at::Tensor& tensor = target.toTensor();
  const std::vector<std::byte> zeros(tensor.nbytes());
  prism_shim_write(tensor.data_ptr(), zeros.data(), zeros.size());
}

// A number, or a tensor that holds a known one.
std::optional<c10::Scalar> FillValue(c10::ArrayRef<const c10::IValue> inputs) {
  if (inputs.size() != 2 || !inputs[0].isTensor()) {
    return std::nullopt;
  }
  if (!inputs[1].isTensor()) {
    return IsRealNumber(inputs[1]) ? std::optional<c10::Scalar>(NumberOf(inputs[1])) : std::nullopt;
  }
  const Unobserved guard;
  const at::Tensor value = ReadWritten(inputs[1].toTensor());
  return value.defined() && !value.is_complex() ? std::optional<c10::Scalar>(value.item())
                                                : std::nullopt;
}

// Most fills are zeros, which have the same bytes in every type.
void WriteFill(c10::ArrayRef<const c10::IValue> inputs) {
  const std::optional<c10::Scalar> value = FillValue(inputs);
  if (!value) {
    return;
  }
  if (!IsSmallAndDense(inputs[0])) {
    WriteFillOfView(inputs[0], *value);
  } else if (value->toDouble() == 0.0 && !std::signbit(value->toDouble())) {
    WriteZero(inputs[0]);
  } else {
    Write(inputs[0].toTensor(), [&](size_t) { return *value; });
  }
}

// random_(self, from, to, generator) and random_(self, to, generator), to which randint leads.
void WriteRandom(c10::ArrayRef<const c10::IValue> inputs) {
  if (inputs.size() < 3 || !IsSmallAndDense(inputs[0])) {
    return;
  }
  const size_t bound = inputs.size() - 2;
  if (!inputs[bound].isInt()) {
    return;
  }
  const at::Tensor& tensor = inputs[0].toTensor();
  const int64_t low = bound == 1 ? 0 : inputs[1].toInt();
  const int64_t high = inputs[bound].toInt();
  if (low < high) {
    Write(tensor, [&](size_t i) { return c10::Scalar(DrawInteger(i, low, high)); });
  }
}

void WritePermutation(const at::Tensor& output) {
  const std::vector<int64_t> numbers = DrawPermutation(output.numel());
  Write(output, [&](size_t i) { return c10::Scalar(numbers[i]); });
}

// Which input of a selection gives the axis: topk(self, k, dim, ...), argmax(self, dim, keepdim)
// and max(self, dim, keepdim). 0: the op selects nothing.
size_t AxisInput(std::string_view op) {
  if (op == "aten::topk") {
    return 2;
  }
  return op == "aten::argmax" || op == "aten::max" ? 1 : 0;
}

// Of what nobody knows.
std::unique_ptr<RuleScope> BeginSelect(const at::RecordFunction& function,
                                       std::unique_ptr<RuleScope> scope) {
  const c10::ArrayRef<const c10::IValue> inputs = function.inputs();
  const size_t axis = AxisInput(function.name());
  if (axis == 0 || inputs.size() <= axis || !inputs[0].isTensor() || !inputs[axis].isInt()) {
    return nullptr;
  }
  const at::Tensor& scores = inputs[0].toTensor();
  if (!scores.is_cuda() || scores.dim() == 0) {
    return nullptr;
  }
  scope->rule = Rule::kSelect;
  scope->axis = inputs[axis].toInt();
  scope->choices = scores.size(scope->axis);
  scope->dims = scores.dim();
  return scope;
}

void EndSelect(const RuleScope& scope, const std::vector<c10::IValue>& outputs) {
  if (outputs.empty() || !outputs.back().isTensor()) {
    return;
  }
  const at::Tensor& indices = outputs.back().toTensor();
  const bool has_axis = indices.dim() == scope.dims;
  WriteRouting(has_axis ? indices : indices.unsqueeze(scope.axis), scope.choices, scope.axis);
}

std::unique_ptr<RuleScope> BeginCompute(const at::RecordFunction& function,
                                        size_t first_out,
                                        std::unique_ptr<RuleScope> scope) {
  scope->results = TrueResults::Begin(function, first_out);
  if (scope->results != nullptr) {
    return scope;
  }
  scope->distinct = AssumedDistinct::Begin(function.name(), function.inputs());
  if (scope->distinct != nullptr) {
    scope->rule = Rule::kDistinct;
    return scope;
  }
  scope->parts = KnownParts::Begin(function.name(), function.inputs());
  if (scope->parts != nullptr) {
    scope->rule = Rule::kParts;
    return scope;
  }
  return BeginSelect(function, std::move(scope));
}

void WriteArange(const RuleScope& scope, const at::Tensor& output) {
  const bool whole = scope.start.isIntegral(true) && scope.step.isIntegral(true);
  Write(output, [&](size_t i) {
    const auto index = static_cast<int64_t>(i);
    return whole ? c10::Scalar(scope.start.toLong() + index * scope.step.toLong())
                 : c10::Scalar(scope.start.toDouble() +
                               static_cast<double>(index) * scope.step.toDouble());
  });
}

// Writes what is known before the call; returns a scope if the rest must be written at its end.
std::unique_ptr<RuleScope> ApplyAtStart(const Plan& plan, const at::RecordFunction& function) {
  const c10::ArrayRef<const c10::IValue> inputs = function.inputs();
  auto scope = std::make_unique<RuleScope>();
  scope->rule = *plan.rule;
  switch (*plan.rule) {
    case Rule::kFill:
      WriteFill(inputs);
      return nullptr;
    case Rule::kZero:
      WriteZero(inputs[0]);
      return nullptr;
    case Rule::kArange:
      // arange(start, end, step, out), to which every form of the call leads.
      if (inputs.size() != 4 || !IsRealNumber(inputs[0]) || !IsRealNumber(inputs[2])) {
        return nullptr;
      }
      scope->start = NumberOf(inputs[0]);
      scope->step = NumberOf(inputs[2]);
      return scope;
    case Rule::kRandom:
      WriteRandom(inputs);
      return nullptr;
    case Rule::kPermutation:
      // randperm(n, generator, out), to which every form of the call leads.
      return inputs.size() == 3 && inputs[2].isTensor() ? std::move(scope) : nullptr;
    case Rule::kTrue:
      scope->op = function.name();
      return scope;
    case Rule::kCompute:
      return BeginCompute(function, plan.overwritten.first_out, std::move(scope));
    case Rule::kLists:
      scope->lists = ListResults::Begin(function.name(), inputs);
      return scope->lists != nullptr ? std::move(scope) : nullptr;
    case Rule::kSelect:
    case Rule::kDistinct:
    case Rule::kParts:
      break;
  }
  return nullptr;
}

void ApplyAtEnd(const RuleScope& scope, const std::vector<c10::IValue>& outputs) {
  if (scope.rule == Rule::kCompute) {
    return scope.results->End(outputs);
  }
  if (scope.rule == Rule::kLists) {
    return scope.lists->End();
  }
  if (scope.rule == Rule::kSelect) {
    return EndSelect(scope, outputs);
  }
  if (scope.rule == Rule::kDistinct) {
    return scope.distinct->End(outputs);
  }
  if (scope.rule == Rule::kParts) {
    return scope.parts->End(outputs);
  }
  if (outputs.empty() || !IsSmallAndDense(outputs[0])) {
    return;
  }
  const at::Tensor& output = outputs[0].toTensor();
  if (scope.rule == Rule::kArange) {
    WriteArange(scope, output);
  } else if (scope.rule == Rule::kPermutation) {
    WritePermutation(output);
  } else {
    Write(output, [](size_t) { return c10::Scalar(1); });
    prism_shim_count(("results_assumed_true:" + scope.op).c_str());
  }
}

// A type that no rule writes, or a value that does not fit it, leaves the result unwritten.
template <typename Action>
auto Guarded(const Action& action) -> decltype(action()) {
  try {
    return action();
  } catch (const std::exception&) {
    prism_shim_count("value_rules_not_applied");
    return decltype(action())();
  }
}

std::unique_ptr<at::ObserverContext> OnStart(const at::RecordFunction& function) {
  const Plan& plan = PlanOf(function);
  const auto forget = [&] { ForgetOverwritten(plan.overwritten, function.inputs()); };
  const auto apply = [&] { return ApplyAtStart(plan, function); };
  // What is computed from the old values reads them first; what is known at once stays.
  const bool reads = plan.rule == Rule::kCompute || plan.rule == Rule::kLists;
  if (!reads) {
    Guarded(forget);
  }
  std::unique_ptr<RuleScope> scope = plan.rule ? Guarded(apply) : nullptr;
  if (reads) {
    Guarded(forget);
  }
  return scope;
}

void OnEnd(const at::RecordFunction& function, at::ObserverContext* scope) {
  if (scope != nullptr) {
    Guarded([&] { ApplyAtEnd(*static_cast<RuleScope*>(scope), function.outputs()); });
  }
}

}  // namespace

void StartValueRules() {
  at::addGlobalCallback(at::RecordFunctionCallback(OnStart, OnEnd)
                            .needsInputs(true)
                            .needsOutputs(true)
                            .scopes({at::RecordScope::FUNCTION}));
}

}  // namespace prism::shim
