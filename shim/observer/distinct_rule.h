// How many distinct values torch.unique and its kin find. Of known values they are counted
// (true_results.h); in what no kernel wrote all are distinct, as far as the type allows, so that
// nothing that is made per value is smaller than in the real job.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

namespace prism::shim {

// _unique2, unique_dim, unique_consecutive and unique_dim_consecutive.
bool FindsDistinct(std::string_view op);

// What such an op reads from the device to learn the size of its result, `values`.
int64_t DistinctCount(std::string_view op,
                      c10::ArrayRef<const c10::IValue> inputs,
                      const at::Tensor& values);

// A search in unknown values, counted as "distinct_by_rule".
class AssumedDistinct {
 public:
  // Provides the count that the op reads; null if it reads none.
  static std::unique_ptr<AssumedDistinct> Begin(std::string_view op,
                                                c10::ArrayRef<const c10::IValue> inputs);

  // Writes which value each element has and how often each occurs, evenly.
  void End(const std::vector<c10::IValue>& outputs) const;

 private:
  std::optional<int64_t> axis_;
  int64_t searched_ = 0;
};

}  // namespace prism::shim
