// The arithmetic of reductions: small formats against their definition by powers of two, and the
// code that the GPU runs against the exchange's.
#include "shim/nccl/reduction.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "shim/gpu/reduction_logic.h"
#include "shim/nccl/reduction_arithmetic.h"

namespace prism::shim {
namespace {

// The value of the bits of a format.
template <SmallFormat kFormat>
float Meaning(uint32_t bits) {
  using Fields = SmallFields<kFormat>;
  const uint32_t mantissa = bits & Fields::kMantissaMask;
  const uint32_t exponent = (bits >> kFormat.mantissa_bits) & Fields::kMaxExponent;
  float value = std::ldexp(static_cast<float>(mantissa), 1 - Fields::kBias - kFormat.mantissa_bits);
  if (exponent == Fields::kMaxExponent &&
      (kFormat.has_infinity || mantissa == Fields::kMantissaMask)) {
    value = kFormat.has_infinity && mantissa == 0 ? std::numeric_limits<float>::infinity()
                                                  : std::numeric_limits<float>::quiet_NaN();
  } else if (exponent != 0) {
    value = std::ldexp(static_cast<float>(mantissa | (Fields::kMantissaMask + 1)),
                       static_cast<int>(exponent) - Fields::kBias - kFormat.mantissa_bits);
  }
  return (bits >> Fields::kSignAt) != 0 ? -value : value;
}

// The bits of the representable number nearest to a finite one, by rounding in units of the last
// place.
template <SmallFormat kFormat>
uint32_t Nearest(float value) {
  using Fields = SmallFields<kFormat>;
  const uint32_t sign = std::signbit(value) ? 1U << Fields::kSignAt : 0;
  const float magnitude = std::fabs(value);
  if (magnitude == 0) {
    return sign;
  }
  const int exponent = std::max(std::ilogb(magnitude), 1 - Fields::kBias);
  const auto units =
      static_cast<int64_t>(std::nearbyint(std::ldexp(magnitude, kFormat.mantissa_bits - exponent)));
  const int64_t base = static_cast<int64_t>(exponent + Fields::kBias - 1) << kFormat.mantissa_bits;
  const auto bits = static_cast<uint64_t>(base + units);
  const uint32_t too_large = kFormat.saturates ? Fields::kLargest : Fields::kTop;
  return sign | (bits > Fields::kLargest ? too_large : static_cast<uint32_t>(bits));
}

template <SmallFormat kFormat>
void CheckFormat() {
  const uint32_t patterns = 2U << SmallFields<kFormat>::kSignAt;
  for (uint32_t bits = 0; bits < patterns; ++bits) {
    const float value = Widen<kFormat>(bits);
    ASSERT_EQ(FloatBits(value), FloatBits(Meaning<kFormat>(bits))) << bits;
    if (!std::isfinite(value)) {
      continue;
    }
    ASSERT_EQ(Narrow<kFormat>(value), bits);
    // Ties and their neighbours.
    const float next = Widen<kFormat>(bits + 1);
    const float tie = value + (next - value) / 2;
    for (const float near : {tie, std::nextafter(tie, value), std::nextafter(tie, next)}) {
      if (std::isfinite(near)) {
        ASSERT_EQ(Narrow<kFormat>(near), Nearest<kFormat>(near)) << near;
      }
    }
  }
  std::mt19937 random(7);
  for (int i = 0; i < 200'000; ++i) {
    const float value = FloatOfBits(static_cast<uint32_t>(random()));
    if (std::isfinite(value)) {
      ASSERT_EQ(Narrow<kFormat>(value), Nearest<kFormat>(value)) << value;
    }
  }
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(Narrow<kFormat>(kInfinity),
            kFormat.saturates ? SmallFields<kFormat>::kLargest : SmallFields<kFormat>::kTop);
  EXPECT_TRUE(std::isnan(Widen<kFormat>(Narrow<kFormat>(std::nanf("")))));
}

TEST(SmallFormats, are_what_their_definition_says_and_round_to_the_nearest) {
  CheckFormat<kHalf>();
  CheckFormat<kBfloat>();
  CheckFormat<kE4m3>();
  CheckFormat<kE5m2>();
}

// All bits are drawn, NaNs and subnormals among them. Each thread takes its own elements.
TEST(DeviceReduction, gives_the_bits_of_the_exchange) {
  constexpr size_t kCount = 97;
  constexpr size_t kStride = 1024;
  constexpr uint64_t kThreads = 5;
  std::mt19937 random(11);
  for (int element = 0; element < kElementCount; ++element) {
    for (int kind = 0; kind <= static_cast<int>(ReduceKind::kBitXor); ++kind) {
      for (const Members members : {Members{1, 0}, Members{1, 6}, Members{2, 0}, Members{4, 3}}) {
        std::vector<std::byte> chunks(kStride * static_cast<size_t>(members.present));
        for (std::byte& byte : chunks) {
          byte = static_cast<std::byte>(random());
        }
        std::vector<const std::byte*> contributions;
        for (int32_t member = 0; member < members.present; ++member) {
          contributions.push_back(chunks.data() + kStride * static_cast<size_t>(member));
        }
        const Reduction reduction = {static_cast<ReduceKind>(kind), kind == 0 ? 0.375 : 1.0};
        std::vector<std::byte> expected(kStride);
        std::vector<std::byte> got(kStride);
        CombineContributions({contributions, members.absent}, static_cast<Element>(element),
                             reduction, kCount, expected.data());
        const ReductionTask task = {chunks.data(),
                                    got.data(),
                                    kStride,
                                    kCount,
                                    members,
                                    reduction,
                                    static_cast<Element>(element)};
        for (uint64_t thread = 0; thread < kThreads; ++thread) {
          RunReduction(task, thread, kThreads);
        }
        ASSERT_EQ(got, expected) << ElementName(static_cast<Element>(element)) << " "
                                 << ReduceKindName(static_cast<ReduceKind>(kind));
      }
    }
  }
}

}  // namespace
}  // namespace prism::shim
