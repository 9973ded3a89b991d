// Small integers among the tensors of a _foreach op that changes them in place, computed as in
// true_results.h, each on its own: an optimizer's counters are in one list with its weights.
#pragma once

#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

namespace prism::shim {

class ListResults {
 public:
  // _foreach_add_ of a number, _foreach_copy_ and _foreach_zero_.
  static bool IsKnown(std::string_view op);

  // Computes what is known; null if that is nothing.
  static std::unique_ptr<ListResults> Begin(std::string_view op,
                                            c10::ArrayRef<const c10::IValue> inputs);

  void End() const;

 private:
  std::vector<std::pair<at::Tensor, at::Tensor>> results_;  // of the device, and its new value
};

}  // namespace prism::shim
