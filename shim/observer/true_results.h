// Small integer and boolean results, actually computed on the host although no kernel runs: what
// programs derive from masks, indices and counts that they know (tokens per expert, sizes of an
// exchange) is right, and so are the sizes of what they select.
//
// An op is computed if every tensor it reads was completely written (shim/cuda/memory.h) and is
// small, and its results are integers or booleans. It runs on copies of its inputs from when it
// began; composite ops are computed at each level, with the same result.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include <ATen/core/ivalue.h>
#include <ATen/record_function.h>

namespace prism::shim {

// Larger tensors do not affect control flow and would cost time: masks, scales and routing maps are
// smaller.
inline constexpr size_t kMaxRuleBytes = size_t{2} << 20;

class TrueResults {
 public:
  static bool IsKnown(std::string_view op);

  // Copies the inputs; null if the op is not computed. If the op asks the device how many elements
  // a mask selects, the answer is provided.
  static std::unique_ptr<TrueResults> Begin(const at::RecordFunction& function);

  // Computes, and writes the outputs.
  void End(const std::vector<c10::IValue>& outputs);

 private:
  c10::OperatorName op_{"", ""};
  std::vector<c10::IValue> stack_;
  bool answers_count_ = false;
  bool gives_counts_ = false;
};

// A tensor of the device, or of the host, as a host tensor; undefined if it is large or not
// completely written.
at::Tensor ReadWritten(const at::Tensor& tensor);

// Writes a host tensor of the same sizes and type to a dense tensor of the device. False: it is not
// dense, or too large.
bool WriteResult(const at::Tensor& result, const at::Tensor& output);

}  // namespace prism::shim
