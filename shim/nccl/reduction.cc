#include "shim/nccl/reduction.h"

#include <cstring>

#include "shim/nccl/reduction_arithmetic.h"

namespace prism::shim {

namespace {

template <typename Traits>
void Combine(const ReductionInput& input, Reduction reduction, size_t count, void* out) {
  using Stored = typename Traits::Stored;
  const Members members = {static_cast<int32_t>(input.contributions.size()), input.absent};
  auto* target = static_cast<Stored*>(out);
  for (size_t i = 0; i < count; ++i) {
    const auto stored = [&](int32_t member) {
      return reinterpret_cast<const Stored*>(input.contributions[static_cast<size_t>(member)])[i];
    };
    target[i] = CombineElement<Traits>(stored, members, reduction);
  }
}

}  // namespace

size_t ElementBytes(Element element) {
  constexpr size_t kBytes[kElementCount] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};
  return kBytes[static_cast<size_t>(element)];
}

double ReadScalar(const void* at, Element element) {
  double out = 0;
  const auto load = [&]<typename Traits>(Traits /*traits*/) {
    typename Traits::Stored stored;
    std::memcpy(&stored, at, sizeof(stored));
    out = static_cast<double>(Traits::Load(stored));
  };
  DispatchElement(element, load);
  return out;
}

void WriteScalar(void* at, Element element, double value) {
  DispatchElement(element, [&]<typename Traits>(Traits /*traits*/) {
    const typename Traits::Stored stored = Traits::Store(static_cast<typename Traits::Wide>(value));
    std::memcpy(at, &stored, sizeof(stored));
  });
}

const char* ReduceKindName(ReduceKind kind) {
  constexpr const char* kNames[] = {"sum", "prod",   "max",   "min",
                                    "avg", "bitand", "bitor", "bitxor"};
  return kNames[static_cast<size_t>(kind)];
}

void CombineContributions(
    const ReductionInput& input, Element element, Reduction reduction, size_t count, void* out) {
  DispatchElement(element, [&]<typename Traits>(Traits /*traits*/) {
    Combine<Traits>(input, reduction, count, out);
  });
}

}  // namespace prism::shim
