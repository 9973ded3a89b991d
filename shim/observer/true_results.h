// Small integer and boolean results, actually computed on the host although no kernel runs: what
// programs derive from masks, indices and counts that they know (tokens per expert, sizes of an
// exchange) is right, and so are the sizes of what they select.
//
// An op is computed if every tensor it reads was completely written (shim/virtual_device/memory.h)
// and is small, and its results are integers or booleans. It runs on copies of its inputs from when
// it began; composite ops are computed at each level, with the same result.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <ATen/record_function.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

namespace prism::shim {

// Larger tensors do not affect control flow and would cost time: masks, scales and routing maps are
// smaller.
inline constexpr size_t kMaxRuleBytes = size_t{2} << 20;

// For what a callback computes: neither observed nor differentiated nor handed to Python.
struct Unobserved {
  at::RecordFunctionGuard no_records{false};
  at::AutoDispatchBelowADInplaceOrView below;
  c10::impl::ExcludeDispatchKeyGuard no_python{
      c10::DispatchKeySet({c10::DispatchKey::Python, c10::DispatchKey::PythonTLSSnapshot})};
};

class TrueResults {
 public:
  static bool IsKnown(std::string_view op);

  // Copies the inputs; null if the op is not computed. If the op asks the device how many elements
  // a mask selects or how many values are distinct, the answer is provided.
  // Arguments from `first_out` on are only written.
  static std::unique_ptr<TrueResults> Begin(const at::RecordFunction& function, size_t first_out);

  // Computes, and writes the outputs.
  void End(const std::vector<c10::IValue>& outputs);

 private:
  void Run();
  void ProvideCount();

  c10::OperatorName op_{"", ""};
  std::vector<c10::IValue> stack_;  // the arguments, then the results
  bool has_run_ = false;
  bool answers_count_ = false;
  bool gives_counts_ = false;
};

// What a cat joins that is not known in whole: parts that are keep their values, of whatever type.
// So a count that travels with sums, as SyncBatchNorm's does, is known on the other side.
class KnownParts {
 public:
  // Copies the parts; null if none is known.
  static std::unique_ptr<KnownParts> Begin(std::string_view op,
                                           c10::ArrayRef<const c10::IValue> inputs);

  void End(const std::vector<c10::IValue>& outputs) const;

 private:
  int64_t axis_ = 0;
  std::vector<std::pair<int64_t, at::Tensor>> parts_;  // with where they begin along the axis
};

// A tensor of the device, or of the host, as a host tensor; undefined if it is large or not
// completely written.
at::Tensor ReadWritten(const at::Tensor& tensor);

// Writes a host tensor of the same sizes and type to a tensor of the device. False: it is too
// large, or has gaps and many elements.
bool WriteResult(const at::Tensor& result, const at::Tensor& output);

// Integers or booleans of the device that rules write.
bool IsSmallInteger(const at::Tensor& tensor);

// If it is a small integer, it counts as never written.
void ForgetValue(const at::Tensor& tensor);

}  // namespace prism::shim
