// Small integer and boolean results, computed for true on the host although no kernel runs: what
// programs derive from masks, indices and counts they know (tokens of an expert, sizes of a
// exchange) comes out right, and so do the sizes of what they select.
//
// An op takes part when every tensor it reads was written in full (shim/cuda/memory.h), is small,
// and what it gives is of integers or booleans. It runs on copies of its inputs as they were when
// it began; ops made of others are computed at each level, with the same result.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include <ATen/core/ivalue.h>
#include <ATen/record_function.h>

namespace prism::shim {

// What is larger steers nothing and would cost time: masks, scales and routing maps stay below.
inline constexpr size_t kMaxRuleBytes = size_t{2} << 20;

class TrueResults {
 public:
  static bool IsKnown(std::string_view op);

  // Takes the inputs; nothing where the op does not take part. Where the op asks the device how
  // many elements a mask selects, the answer is put in place.
  static std::unique_ptr<TrueResults> Begin(const at::RecordFunction& function);

  // Computes, and writes the outputs.
  void End(const std::vector<c10::IValue>& outputs);

 private:
  c10::OperatorName op_{"", ""};
  std::vector<c10::IValue> stack_;
  bool answers_count_ = false;
  bool gives_counts_ = false;
};

// A tensor of the device, or of the host, as a host tensor; undefined where it is large or not
// written in full.
at::Tensor ReadWritten(const at::Tensor& tensor);

// Writes a host tensor of the same sizes and type to a dense tensor of the device. False: it is
// none, or too large.
bool WriteResult(const at::Tensor& result, const at::Tensor& output);

}  // namespace prism::shim
