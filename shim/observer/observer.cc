// What the framework is doing when it calls the device: names and input shapes of its ops, ranges
// that the program marks (record_function), statistics of the caching allocator. With
// process_groups.cc the only file of the shim that uses libtorch; built as libprism_observer.so
// against the wheel and loaded by observer_loader.cc.
//
// The callbacks run for every framework op, so a context is encoded once and found again by a hash
// over its name, types and shapes (64 bits over some thousands of contexts: a collision is not a
// concern).
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/core/function_schema.h>
#include <ATen/core/ivalue.h>
#include <ATen/record_function.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <torch/csrc/autograd/graph_task.h>

#include "graph/base/mix.h"
#include "shim/observer/observer_calls.h"
#include "shim/observer/process_groups.h"
#include "shim/observer/value_rules.h"

namespace {

using prism::channel::ContextHeader;
using prism::channel::Table;

constexpr std::string_view kIterationMarker = "iteration";
constexpr std::string_view kOptimizerStepPrefix = "Optimizer.step#";
const std::string kOptimizerOnCpu = "optimizer_on_cpu:";

// A fused optimizer gets lists of all parameters; tensors beyond this number are left out.
constexpr size_t kMaxTensors = 1024;
constexpr size_t kMaxNameBytes = 256;
constexpr int64_t kMaxDimensions = 16;

// Ops that never launch anything themselves; leaving them out keeps the context of the enclosing op
// and saves time. "record_param_comms" wraps c10d's collectives.
bool LaunchesNothing(std::string_view name) {
  static const std::unordered_set<std::string_view> names = {
      "record_param_comms",
      "aten::view",
      "aten::as_strided",
      "aten::t",
      "aten::transpose",
      "aten::reshape",
      "aten::detach",
      "detach",
      "aten::empty",
      "aten::empty_like",
      "aten::empty_strided",
      "aten::select",
      "aten::slice",
      "aten::narrow",
      "aten::permute",
      "aten::expand",
      "aten::unsqueeze",
      "aten::squeeze",
      "aten::alias",
      "aten::_unsafe_view",
      "aten::_reshape_alias",
      "aten::view_as",
      "aten::expand_as",
      "aten::resize_",
      "aten::unbind",
      "aten::split",
      "aten::chunk",
      "aten::set_",
      "aten::record_stream",
      "aten::resolve_conj",
      "aten::resolve_neg",
      "aten::is_nonzero",
      "aten::lift_fresh",
      "aten::flatten",
      "aten::unflatten",
      "aten::result_type",
      "aten::_has_compatible_shallow_copy_type"};
  return names.contains(name);
}

// DataType of messages.h by libtorch's scalar type.
uint8_t DataTypeOf(c10::ScalarType type) {
  switch (type) {
    case c10::ScalarType::Bool:
      return 1;
    case c10::ScalarType::Char:
      return 2;
    case c10::ScalarType::Byte:
      return 3;
    case c10::ScalarType::Short:
      return 4;
    case c10::ScalarType::Int:
      return 5;
    case c10::ScalarType::Long:
      return 6;
    case c10::ScalarType::Float8_e4m3fn:
    case c10::ScalarType::Float8_e5m2:
      return 7;
    case c10::ScalarType::Half:
      return 8;
    case c10::ScalarType::BFloat16:
      return 9;
    case c10::ScalarType::Float:
    case c10::ScalarType::ComplexHalf:  // complex numbers count by their bytes
      return 10;
    case c10::ScalarType::Double:
    case c10::ScalarType::ComplexFloat:
      return 11;
    default:
      return 0;
  }
}

// A subclass reports its sizes through Python, which may fail, and a tensor traced with symbolic
// sizes has none; what they hold appears in the ops on it.
bool IsPlain(const at::Tensor& tensor) {
  return tensor.defined() && !tensor.key_set().has(c10::DispatchKey::Python) &&
         !tensor.unsafeGetTensorImpl()->has_symbolic_sizes_strides() && !tensor.is_nested() &&
         tensor.dim() <= kMaxDimensions;
}

// Behind the name of an attention op that computes all scores: most of its kernels do not say.
constexpr std::string_view kFullAttention = ".full";

bool IsFullAttention(const at::RecordFunction& function, std::string_view name) {
  const auto schema =
      name.find("attention") == name.npos ? std::nullopt : function.operator_schema();
  const c10::ArrayRef<const c10::IValue> inputs = function.inputs();
  for (size_t i = 0; schema && i < std::min(inputs.size(), schema->arguments().size()); ++i) {
    const std::string& argument = schema->arguments()[i].name();
    if ((argument == "is_causal" && inputs[i].isBool() && !inputs[i].toBool()) ||
        (argument == "custom_mask_type" && inputs[i].isInt() && inputs[i].toInt() == 0)) {
      return true;
    }
  }
  return false;
}

// The output of an op that enlarges or shrinks images, whose size is an argument.
std::vector<int64_t> ResampledSizes(std::string_view name,
                                    c10::ArrayRef<const c10::IValue> inputs) {
  std::vector<int64_t> sizes;
  if (name.starts_with("aten::upsample_") && name.find("backward") == name.npos &&
      inputs.size() > 1 && inputs[0].isTensor() && inputs[1].isIntList()) {
    sizes = inputs[0].toTensor().sizes().vec();
    const std::vector<int64_t> extent = inputs[1].toIntVector();
    std::copy_backward(extent.begin(), extent.begin() + std::min(extent.size(), sizes.size()),
                       sizes.end());
  }
  return sizes;
}

// Calls `visit(tensor)` for each plain tensor among the inputs, lists of tensors included.
template <typename Visit>
void ForEachTensor(c10::ArrayRef<const c10::IValue> inputs, const Visit& visit) {
  size_t left = kMaxTensors;
  const auto visit_value = [&](const c10::IValue& value) {
    if (!value.isTensor() || left == 0) {
      return;
    }
    const at::Tensor& tensor = value.toTensor();
    if (IsPlain(tensor)) {
      --left;
      visit(tensor);
    }
  };
  for (const c10::IValue& value : inputs) {
    if (value.isTensorList() || value.isOptionalTensorList()) {
      for (const c10::IValue& element : value.toListRef()) {
        visit_value(element);
      }
    } else {
      visit_value(value);
    }
  }
}

// Calls `visit(type, sizes)` for each of them, and for an output that ResampledSizes knows.
template <typename Visit>
void ForEachShape(std::string_view name,
                  c10::ArrayRef<const c10::IValue> inputs,
                  const Visit& visit) {
  ForEachTensor(inputs, [&](const at::Tensor& tensor) {
    visit(DataTypeOf(tensor.scalar_type()), tensor.sizes());
  });
  if (const std::vector<int64_t> sizes = ResampledSizes(name, inputs); !sizes.empty()) {
    visit(DataTypeOf(inputs[0].toTensor().scalar_type()), c10::IntArrayRef(sizes));
  }
}

uint64_t HashContext(std::string_view name, c10::ArrayRef<const c10::IValue> inputs) {
  uint64_t hash = std::hash<std::string_view>()(name);
  ForEachShape(name, inputs, [&hash](uint8_t type, c10::IntArrayRef sizes) {
    hash = prism::MixBits(hash ^ ((uint64_t{type} << 32U) + sizes.size()));
    for (const int64_t size : sizes) {
      hash = prism::MixBits(hash ^ static_cast<uint64_t>(size));
    }
  });
  return hash;
}

std::string EncodeContext(std::string_view name, c10::ArrayRef<const c10::IValue> inputs) {
  ContextHeader header = {};
  std::string tensors;
  ForEachShape(name, inputs, [&](uint8_t type, c10::IntArrayRef sizes) {
    ++header.tensor_count;
    tensors.push_back(static_cast<char>(type));
    tensors.push_back(static_cast<char>(sizes.size()));
    tensors.append(reinterpret_cast<const char*>(sizes.data()), sizes.size() * sizeof(int64_t));
  });
  header.name_bytes = static_cast<uint16_t>(name.size());
  std::string payload(sizeof(header), '\0');
  std::memcpy(payload.data(), &header, sizeof(header));
  payload += name;
  payload += tensors;
  return payload;
}

uint32_t Define(Table table, std::string_view payload) {
  return prism_shim_define(static_cast<uint8_t>(table), payload.data(),
                           static_cast<uint32_t>(payload.size()));
}

// The id of an op's context; 0 for ops that launch nothing. One cache per thread: no lock.
uint32_t ContextOf(const at::RecordFunction& function) {
  thread_local std::unordered_map<uint64_t, uint32_t> cache;
  std::string_view name = std::string_view(function.name()).substr(0, kMaxNameBytes);
  std::string with_mask;
  if (IsFullAttention(function, name)) {
    name = with_mask.append(name).append(kFullAttention);
  }
  const c10::ArrayRef<const c10::IValue> inputs = function.inputs();
  const auto [entry, is_new] = cache.try_emplace(HashContext(name, inputs), 0);
  if (is_new && !LaunchesNothing(name)) {
    entry->second = Define(Table::kContext, EncodeContext(name, inputs));
  }
  return entry->second;
}

void ReportAllocatorStats() {
  using c10::CachingDeviceAllocator::StatType;
  try {
    const auto stats = c10::cuda::CUDACachingAllocator::getDeviceStats(c10::cuda::current_device());
    const auto all = static_cast<size_t>(StatType::AGGREGATE);
    const prism::channel::AllocatorStatsBody body = {
        .peak_allocated = stats.allocated_bytes[all].peak,
        .peak_reserved = stats.reserved_bytes[all].peak,
        .allocated = stats.allocated_bytes[all].current,
        .reserved = stats.reserved_bytes[all].current};
    prism_shim_allocator_stats(&body);
  } catch (const std::exception&) {
    // No allocator on this device yet: nothing was allocated, so there is nothing to report.
    return;
  }
}

// Whether this thread runs a node of a backward pass, or a hook of one.
int IsInBackward() {
  return torch::autograd::get_current_graph_task_id() >= 0 ? 1 : 0;
}

// What the end of an op or range has to undo.
struct OpScope : at::ObserverContext {
  OpScope(uint32_t context, bool backward) : previous(context), in_backward(backward) {}

  uint32_t previous;
  bool in_backward;
};

thread_local int open_optimizer_steps = 0;

// Computation on the CPU takes no time here, unless the host's time is measured.
void CountIfOnCpu(const at::RecordFunction& function) {
  constexpr int64_t kManyElements = 4096;  // more than the step counts that Adam keeps there
  bool is_on_cpu = false;
  ForEachTensor(function.inputs(), [&](const at::Tensor& tensor) {
    is_on_cpu = is_on_cpu || (tensor.is_cpu() && tensor.numel() >= kManyElements);
  });
  if (is_on_cpu) {
    prism_shim_count((kOptimizerOnCpu + function.name()).c_str());
  }
}

// What the observer computes is no time of the program.
struct InObserver {
  InObserver() { prism_shim_inside(1); }
  ~InObserver() { prism_shim_inside(0); }
};

// libtorch would report an exception once per op.
std::unique_ptr<at::ObserverContext> OnOpStart(const at::RecordFunction& function) {
  const InObserver inside;
  int64_t tensors = 0;
  try {
    ForEachTensor(function.inputs(), [&tensors](const at::Tensor&) { ++tensors; });
    prism_shim_framework_op(tensors);
    const uint32_t context = ContextOf(function);
    if (open_optimizer_steps > 0) {
      CountIfOnCpu(function);
    }
    const bool in_backward = IsInBackward() != 0;
    if (context == 0 && !in_backward) {
      return nullptr;
    }
    auto scope = std::make_unique<OpScope>(prism_shim_context(), in_backward);
    if (in_backward) {
      prism_shim_backward_op(1);
    }
    if (context != 0) {
      prism_shim_set_context(context);
    }
    return scope;
  } catch (const std::exception&) {
    prism_shim_count((std::string("op_not_described:") + function.name()).c_str());
    return nullptr;
  }
}

void OnOpEnd(const at::RecordFunction& /*function*/, at::ObserverContext* context) {
  if (context == nullptr) {
    return;
  }
  const InObserver inside;
  const OpScope& scope = *static_cast<OpScope*>(context);
  prism_shim_set_context(scope.previous);
  if (scope.in_backward) {
    prism_shim_backward_op(0);
  }
}

// Asynchronous ranges (c10d's own around each collective) end when someone notices, on any thread:
// they say nothing about when the program does what.
std::unique_ptr<at::ObserverContext> OnRangeStart(const at::RecordFunction& function) {
  if (function.isAsync()) {
    return nullptr;
  }
  const InObserver inside;
  const std::string_view name = function.name();
  prism_shim_marker(Define(Table::kMarkerName, name), 1, IsInBackward());
  if (name.starts_with(kOptimizerStepPrefix)) {
    ++open_optimizer_steps;
    prism_shim_optimizer_step(1);
    if (name.find("CPUAdam") != name.npos) {  // DeepSpeed's: one call, not a framework op
      prism_shim_count((kOptimizerOnCpu + std::string(name)).c_str());
    }
  }
  return nullptr;
}

void OnRangeEnd(const at::RecordFunction& function, at::ObserverContext* /*scope*/) {
  if (function.isAsync()) {
    return;
  }
  const InObserver inside;
  const std::string_view name = function.name();
  if (name == kIterationMarker) {
    ReportAllocatorStats();
  }
  if (name.starts_with(kOptimizerStepPrefix) && open_optimizer_steps > 0) {
    --open_optimizer_steps;
    prism_shim_optimizer_step(0);
  }
  prism_shim_marker(Define(Table::kMarkerName, name), 0, IsInBackward());
}

// CPU time of this thread for such a framework op on the CPU, outside of the observer's own code:
// the least of a few, since others have met an interrupt.
template <typename Op>
int64_t NsPerOp(const Op& op) {
  constexpr int kOps = 500;
  int64_t least_ns = INT64_MAX;
  for (int round = 0; round < 5; ++round) {
    const int64_t begin_ns = prism_shim_outside_ns();
    for (int i = 0; i < kOps; ++i) {
      op();
    }
    least_ns = std::min(least_ns, (prism_shim_outside_ns() - begin_ns) / kOps);
  }
  return least_ns;
}

// What libtorch's calls of the observer take grows with the tensors that it hands over.
void ObserveOps() {
  constexpr int kListed = 64;
  const bool is_measured = prism_shim_outside_ns() > 0;
  const at::Tensor tensor = at::empty({2});
  const std::vector<at::Tensor> list(kListed, tensor);
  const auto one = [&] { at::alias(tensor); };
  const auto many = [&] { at::cat(list); };
  const int64_t one_ns = is_measured ? NsPerOp(one) : 0;
  const int64_t many_ns = is_measured ? NsPerOp(many) : 0;
  at::addGlobalCallback(
      at::RecordFunctionCallback(OnOpStart, OnOpEnd)
          .needsInputs(true)
          .scopes({at::RecordScope::FUNCTION, at::RecordScope::BACKWARD_FUNCTION}));
  if (is_measured) {
    const int64_t call_ns = NsPerOp(one) - one_ns;
    prism_shim_set_observer_call_ns(call_ns, (NsPerOp(many) - many_ns - call_ns) / kListed);
  }
}

}  // namespace

extern "C" __attribute__((visibility("default"))) void prism_observer_start() {
  const auto mode = static_cast<prism::channel::Mode>(prism_shim_mode());
  // On a real device kernels compute their results themselves; one of the tests has none.
  if (mode != prism::channel::Mode::kDevice || std::getenv("PRISM_TEST_DEVICE") != nullptr) {
    prism::shim::StartValueRules();
  }
  if (mode == prism::channel::Mode::kStandalone) {
    return;
  }
  ObserveOps();
  at::addGlobalCallback(
      at::RecordFunctionCallback(OnRangeStart, OnRangeEnd).scopes({at::RecordScope::USER_SCOPE}));
  prism_shim_set_group_provider(prism::shim::ProvideGroup);
}
