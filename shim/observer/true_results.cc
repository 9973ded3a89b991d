#include "shim/observer/true_results.h"

#include <cstdint>
#include <optional>
#include <sstream>
#include <string>
#include <unordered_set>
#include <utility>

#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include "shim/observer/distinct_rule.h"
#include "shim/observer/observer_calls.h"

namespace prism::shim {
namespace {

// Without the namespace.
constexpr std::string_view kOps =
    "add add_ sub sub_ mul mul_ floor_divide div remainder neg abs eq ne lt le gt "
    "ge logical_and logical_or logical_not logical_xor bitwise_and bitwise_or "
    "bitwise_not bitwise_xor sum cumsum prod max min amax amin maximum minimum "
    "clamp clamp_min clamp_max any argmax argmin sort argsort topk scatter "
    "scatter_ scatter_add scatter_add_ gather index index_select index_put_ "
    "_index_put_impl_ where masked_fill masked_fill_ bincount histc nonzero cat "
    "stack clone copy_ repeat flip roll tril triu searchsorted bucketize isin "
    "count_nonzero repeat_interleave _unique2 unique_dim unique_consecutive "
    "unique_dim_consecutive neg_ div_ floor_divide_ remainder_ clamp_ clamp_min_ clamp_max_ "
    "bitwise_and_ bitwise_or_ bitwise_xor_ bitwise_not_ eq_ ne_ lt_ le_ gt_ ge_ cumsum_ "
    "index_fill_ index_copy_ index_add_ tril_ triu_ ";

constexpr const char* kNamespace = "aten::";

bool IsPlain(const at::Tensor& tensor) {
  return tensor.defined() && tensor.layout() == at::kStrided && tensor.has_storage() &&
         !tensor.key_set().has(c10::DispatchKey::Python) && (tensor.is_cuda() || tensor.is_cpu());
}

// Elements from the first to the last, gaps included.
int64_t Span(const at::Tensor& tensor) {
  int64_t span = tensor.numel() == 0 ? 0 : 1;
  for (int64_t axis = 0; span > 0 && axis < tensor.dim(); ++axis) {
    span += (tensor.size(axis) - 1) * tensor.stride(axis);
  }
  return span;
}

// Between the elements of a view may be others, which keep their values; of many elements that
// would take too long.
bool IsWrittenAtOnce(const at::Tensor& tensor) {
  constexpr int64_t kMaxParted = 4096;
  return tensor.is_non_overlapping_and_dense() || tensor.numel() > kMaxParted;
}

bool IsInteger(const at::Tensor& tensor) {
  return at::isIntegralType(tensor.scalar_type(), /*includeBool=*/true);
}

// Host copies in place of tensors. False: one of them is not available.
class HostInputs {
 public:
  bool Take(const c10::IValue& input) {
    if (input.isTensor()) {
      return TakeTensor(input.toTensor());
    }
    if (input.isTensorList()) {
      c10::List<at::Tensor> list;
      for (const at::Tensor& tensor : input.toTensorVector()) {
        list.push_back(Read(tensor));
      }
      stack_.emplace_back(std::move(list));
      return complete_;
    }
    if (input.isOptionalTensorList()) {
      c10::List<std::optional<at::Tensor>> list;
      for (const std::optional<at::Tensor>& tensor : input.toOptionalTensorVector()) {
        list.push_back(tensor ? std::optional<at::Tensor>(Read(*tensor)) : std::nullopt);
      }
      stack_.emplace_back(std::move(list));
      return complete_;
    }
    stack_.push_back(input.isDevice() ? c10::IValue(c10::Device(at::kCPU)) : input);
    return true;
  }

  // A result that the op sizes itself.
  void TakeOut(const c10::IValue& input) {
    stack_.push_back(input.isTensor() ? at::empty({0}, input.toTensor().options().device(at::kCPU))
                                      : input);
  }

  // A tensor that is overwritten: only its form matters.
  void TakeForm(const at::Tensor& tensor) {
    on_device_ = on_device_ || tensor.is_cuda();
    stack_.emplace_back(at::empty(tensor.sizes(), tensor.options().device(at::kCPU)));
  }

  [[nodiscard]] bool on_device() const { return on_device_; }
  std::vector<c10::IValue> TakeStack() { return std::move(stack_); }

 private:
  bool TakeTensor(const at::Tensor& tensor) {
    stack_.emplace_back(tensor.defined() ? Read(tensor) : tensor);
    return complete_;
  }

  at::Tensor Read(const at::Tensor& tensor) {
    on_device_ = on_device_ || (tensor.defined() && tensor.is_cuda());
    at::Tensor host = ReadWritten(tensor);
    complete_ = complete_ && host.defined();
    return host;
  }

  std::vector<c10::IValue> stack_;
  bool complete_ = true;
  bool on_device_ = false;
};

// histc of integers exists only on the device; small integers are exact as floats.
bool NeedsFloats(const c10::OperatorName& op, const c10::IValue& first) {
  return op.name == "aten::histc" && first.isTensor() && IsInteger(first.toTensor());
}

// Results that are floats but count: numbers of tokens that a program counts with histc, and what
// it computes from them.
bool GivesCounts(std::string_view op, c10::ArrayRef<const c10::IValue> inputs) {
  return op == "aten::histc" || (op == "aten::copy_" && inputs.size() > 1 && inputs[1].isTensor() &&
                                 IsInteger(inputs[1].toTensor()));
}

// The result of these is of integers whatever they read; of all others, if the first tensor is.
bool AlwaysGivesIntegers(std::string_view op) {
  static const std::unordered_set<std::string_view> ops = {"aten::eq",
                                                           "aten::ne",
                                                           "aten::lt",
                                                           "aten::le",
                                                           "aten::gt",
                                                           "aten::ge",
                                                           "aten::any",
                                                           "aten::logical_and",
                                                           "aten::logical_or",
                                                           "aten::logical_not",
                                                           "aten::argmax",
                                                           "aten::argmin",
                                                           "aten::sort",
                                                           "aten::argsort",
                                                           "aten::topk",
                                                           "aten::nonzero",
                                                           "aten::count_nonzero",
                                                           "aten::searchsorted",
                                                           "aten::bucketize",
                                                           "aten::isin"};
  return ops.contains(op) || FindsDistinct(op);
}

// Checks only types; most calls go no further.
bool MayGiveIntegers(std::string_view op, c10::ArrayRef<const c10::IValue> inputs) {
  if (AlwaysGivesIntegers(op)) {
    return true;
  }
  for (const c10::IValue& input : inputs) {
    if (input.isTensor() && input.toTensor().defined()) {
      return IsInteger(input.toTensor());
    }
    if (input.isTensorList()) {
      const c10::ArrayRef<c10::IValue> list = input.toListRef();
      return !list.empty() && list[0].toTensor().defined() && IsInteger(list[0].toTensor());
    }
  }
  return false;
}

// What lies between the elements was not written.
at::Tensor ReadParts(const at::Tensor& tensor) {
  std::vector<at::Tensor> parts;
  for (int64_t i = 0; i < tensor.size(0); ++i) {
    parts.push_back(ReadWritten(tensor.select(0, i)));
    if (!parts.back().defined()) {
      return {};
    }
  }
  return at::stack(parts);
}

}  // namespace

at::Tensor ReadWritten(const at::Tensor& tensor) {
  if (!IsPlain(tensor)) {
    return {};
  }
  const int64_t span = Span(tensor);
  const size_t bytes = static_cast<size_t>(span) * tensor.element_size();
  if (bytes > kMaxRuleBytes) {
    return tensor.nbytes() > kMaxRuleBytes || IsWrittenAtOnce(tensor) ? at::Tensor()
                                                                      : ReadParts(tensor);
  }
  at::Tensor host = at::empty({span}, tensor.options().device(at::kCPU));
  if (bytes != 0 && prism_shim_read(host.data_ptr(), tensor.data_ptr(), bytes) != bytes) {
    return IsWrittenAtOnce(tensor) ? at::Tensor() : ReadParts(tensor);
  }
  return host.as_strided(tensor.sizes(), tensor.strides());
}

bool IsSmallInteger(const at::Tensor& tensor) {
  return IsPlain(tensor) && tensor.is_cuda() && IsInteger(tensor) &&
         tensor.nbytes() <= kMaxRuleBytes;
}

void ForgetValue(const at::Tensor& tensor) {
  if (!IsSmallInteger(tensor) || tensor.numel() == 0) {
    return;
  }
  if (IsWrittenAtOnce(tensor)) {
    const size_t span = static_cast<size_t>(Span(tensor)) * tensor.element_size();
    return prism_shim_forget(tensor.data_ptr(), span);
  }
  const Unobserved guard;
  for (int64_t i = 0; i < tensor.size(0); ++i) {
    ForgetValue(tensor.select(0, i));
  }
}

bool WriteResult(const at::Tensor& result, const at::Tensor& output) {
  if (!IsPlain(output) || !output.is_cuda() || result.sizes() != output.sizes() ||
      output.nbytes() > kMaxRuleBytes) {
    return false;
  }
  if (!IsWrittenAtOnce(output)) {
    for (int64_t i = 0; i < output.size(0); ++i) {
      WriteResult(result.select(0, i), output.select(0, i));
    }
    return true;
  }
  if (!output.is_non_overlapping_and_dense()) {
    return false;
  }
  at::Tensor laid_out =
      at::empty_strided(output.sizes(), output.strides(), output.options().device(at::kCPU));
  laid_out.copy_(result);
  prism_shim_write(output.data_ptr(), laid_out.data_ptr(), output.nbytes());
  return true;
}

bool TrueResults::IsKnown(std::string_view op) {
  static const std::unordered_set<std::string> ops = [] {
    std::unordered_set<std::string> made;
    std::istringstream words{std::string(kOps)};
    for (std::string word; words >> word;) {
      made.insert(kNamespace + word);
    }
    return made;
  }();
  return ops.contains(std::string(op));
}

std::unique_ptr<TrueResults> TrueResults::Begin(const at::RecordFunction& function,
                                                size_t first_out) {
  const auto name = function.operator_name();
  const c10::ArrayRef<const c10::IValue> inputs = function.inputs();
  if (!name || inputs.empty() ||
      !(MayGiveIntegers(name->name, inputs) || GivesCounts(name->name, inputs))) {
    return nullptr;
  }
  const Unobserved guard;
  HostInputs host;
  size_t first = 0;
  if (name->name == "aten::copy_") {
    // A copy of one type is made without a kernel, between devices too.
    if (!inputs[0].isTensor() || !inputs[1].isTensor() || !IsPlain(inputs[0].toTensor()) ||
        !inputs[1].toTensor().is_cuda()) {
      return nullptr;
    }
    host.TakeForm(inputs[0].toTensor());
    first = 1;
  }
  for (size_t i = first; i < inputs.size(); ++i) {
    if (i >= first_out) {
      host.TakeOut(inputs[i]);
    } else if (!host.Take(inputs[i])) {
      return nullptr;
    }
  }
  if (!host.on_device()) {
    return nullptr;
  }
  auto call = std::make_unique<TrueResults>();
  call->op_ = *name;
  call->gives_counts_ = GivesCounts(name->name, inputs);
  call->stack_ = host.TakeStack();
  if (NeedsFloats(call->op_, call->stack_[0])) {
    call->stack_[0] = call->stack_[0].toTensor().to(at::kFloat);
  }
  call->ProvideCount();
  return call;
}

void TrueResults::ProvideCount() {
  int64_t count = 0;
  if (op_.name == "aten::nonzero") {
    count = stack_[0].toTensor().count_nonzero().item<int64_t>();
  } else if (FindsDistinct(op_.name)) {
    const std::vector<c10::IValue> inputs = stack_;
    Run();
    const c10::ArrayRef<const c10::IValue> arguments(inputs.data(), inputs.size());
    count = DistinctCount(op_.name, arguments, stack_[0].toTensor());
  } else {
    return;
  }
  prism_shim_answer_read(&count);
  answers_count_ = true;
}

void TrueResults::Run() {
  if (has_run_) {
    return;
  }
  const std::optional<c10::OperatorHandle> op = c10::Dispatcher::singleton().findOp(op_);
  if (op) {
    op->callBoxed(&stack_);
    has_run_ = true;
  }
}

void TrueResults::End(const std::vector<c10::IValue>& outputs) {
  if (answers_count_) {
    prism_shim_answer_read(nullptr);
  }
  const auto is_written = [this](const c10::IValue& output) {
    return output.isTensor() && output.toTensor().defined() && output.toTensor().is_cuda() &&
           (gives_counts_ || IsInteger(output.toTensor()));
  };
  bool wanted = false;
  for (const c10::IValue& output : outputs) {
    wanted = wanted || is_written(output);
  }
  if (!wanted) {
    return;
  }
  const Unobserved guard;
  Run();
  for (size_t i = 0; i < outputs.size() && i < stack_.size(); ++i) {
    if (is_written(outputs[i]) && stack_[i].isTensor()) {
      WriteResult(stack_[i].toTensor(), outputs[i].toTensor());
    }
  }
}

std::unique_ptr<KnownParts> KnownParts::Begin(std::string_view op,
                                              c10::ArrayRef<const c10::IValue> inputs) {
  if (op != "aten::cat" || inputs.size() < 2 || !inputs[0].isTensorList() || !inputs[1].isInt()) {
    return nullptr;
  }
  const Unobserved guard;
  auto known = std::make_unique<KnownParts>();
  known->axis_ = inputs[1].toInt();
  int64_t begin = 0;
  size_t bytes = 0;
  for (const c10::IValue& input : inputs[0].toListRef()) {
    const at::Tensor& tensor = input.toTensor();
    if (!IsPlain(tensor) || !tensor.is_cuda()) {
      return nullptr;
    }
    if (tensor.numel() == 0) {  // of whatever shape
      continue;
    }
    bytes += tensor.nbytes();
    at::Tensor part = ReadWritten(tensor);
    if (part.defined()) {
      known->parts_.emplace_back(begin, std::move(part));
    }
    begin += tensor.size(known->axis_);
  }
  return known->parts_.empty() || bytes > kMaxRuleBytes ? nullptr : std::move(known);
}

void KnownParts::End(const std::vector<c10::IValue>& outputs) const {
  const Unobserved guard;
  for (const auto& [begin, part] : parts_) {
    WriteResult(part, outputs[0].toTensor().narrow(axis_, begin, part.size(axis_)));
  }
}

}  // namespace prism::shim
