// The arithmetic of reductions, element by element: one source for the CPU (reduction.cc) and for
// the GPU's kernel (shim/gpu/reduction_kernels.cu), so that both give the same bits. Widening
// and rounding are integer operations; additions and products round once each (the kernel is
// compiled without fused ones).
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "shim/host_and_device.h"
#include "shim/nccl/reduction.h"

namespace prism::shim {

// A floating-point format of at most 16 bits. `saturates`: no infinities are produced, as CUDA's
// conversions to 8 bits do; e4m3 has none at all.
struct SmallFormat {
  int exponent_bits;
  int mantissa_bits;
  bool has_infinity;
  bool saturates;
};

inline constexpr SmallFormat kHalf{5, 10, true, false};
inline constexpr SmallFormat kBfloat{8, 7, true, false};
inline constexpr SmallFormat kE4m3{4, 3, false, true};
inline constexpr SmallFormat kE5m2{5, 2, true, true};

PRISM_HOST_AND_DEVICE inline uint32_t FloatBits(float value) {
  uint32_t bits = 0;
  memcpy(&bits, &value, sizeof(bits));
  return bits;
}

PRISM_HOST_AND_DEVICE inline float FloatOfBits(uint32_t bits) {
  float value = 0;
  memcpy(&value, &bits, sizeof(value));
  return value;
}

// The fields of float32.
inline constexpr int kFloatMantissaBits = 23;
inline constexpr int kFloatBias = 127;
inline constexpr uint32_t kFloatInfinity = 0x7F80'0000;
inline constexpr uint32_t kFloatQuietNan = 0x7FC0'0000;
inline constexpr uint32_t kFloatSign = 0x8000'0000;

// Constants derived from a format.
template <SmallFormat kFormat>
struct SmallFields {
  static constexpr int kSignAt = kFormat.exponent_bits + kFormat.mantissa_bits;
  static constexpr int kBias = (1 << (kFormat.exponent_bits - 1)) - 1;
  static constexpr int kDropped = kFloatMantissaBits - kFormat.mantissa_bits;
  static constexpr uint32_t kMantissaMask = (1U << kFormat.mantissa_bits) - 1;
  static constexpr uint32_t kMaxExponent = (1U << kFormat.exponent_bits) - 1;
  static constexpr uint32_t kTop = kMaxExponent << kFormat.mantissa_bits;
  // The largest finite value: all ones below infinity, or one below the only NaN of e4m3.
  static constexpr uint32_t kLargest =
      kFormat.has_infinity ? kTop - 1 : (kTop | (kMantissaMask - 1));
};

template <SmallFormat kFormat>
PRISM_HOST_AND_DEVICE inline float Widen(uint32_t bits) {
  using Fields = SmallFields<kFormat>;
  const uint32_t mantissa = bits & Fields::kMantissaMask;
  const uint32_t exponent = (bits >> kFormat.mantissa_bits) & Fields::kMaxExponent;
  const uint32_t sign = (bits >> Fields::kSignAt) != 0 ? kFloatSign : 0;
  if (exponent == Fields::kMaxExponent &&
      (kFormat.has_infinity || mantissa == Fields::kMantissaMask)) {
    const bool infinite = kFormat.has_infinity && mantissa == 0;
    return FloatOfBits(sign | (infinite ? kFloatInfinity : kFloatQuietNan));
  }
  if (exponent != 0 || Fields::kBias == kFloatBias) {
    return FloatOfBits(
        sign |
        ((exponent + static_cast<uint32_t>(kFloatBias - Fields::kBias)) << kFloatMantissaBits) |
        (mantissa << Fields::kDropped));
  }
  // A subnormal of a format with fewer exponents: a whole number of smallest ones, exact.
  constexpr auto kSmallestExponent =
      static_cast<uint32_t>(kFloatBias + 1 - Fields::kBias - kFormat.mantissa_bits);
  const float magnitude =
      static_cast<float>(mantissa) * FloatOfBits(kSmallestExponent << kFloatMantissaBits);
  return FloatOfBits(sign | FloatBits(magnitude));
}

// Shifts out bits and rounds to nearest, ties to even.
PRISM_HOST_AND_DEVICE inline uint32_t ShiftRounded(uint32_t value, uint32_t bits) {
  return (value + (1U << (bits - 1)) - 1 + ((value >> bits) & 1)) >> bits;
}

// Rounds to nearest, ties to even.
template <SmallFormat kFormat>
PRISM_HOST_AND_DEVICE inline uint32_t Narrow(float value) {
  using Fields = SmallFields<kFormat>;
  const uint32_t bits = FloatBits(value);
  const uint32_t magnitude = bits & ~kFloatSign;
  const uint32_t sign = (bits & kFloatSign) != 0 ? 1U << Fields::kSignAt : 0;
  if (magnitude > kFloatInfinity) {
    return sign | Fields::kTop | Fields::kMantissaMask;
  }
  constexpr uint32_t kTooLarge = kFormat.saturates ? Fields::kLargest : Fields::kTop;
  if (magnitude == kFloatInfinity) {
    return sign | kTooLarge;
  }
  constexpr auto kRebias = static_cast<uint32_t>(kFloatBias - Fields::kBias);
  uint32_t rounded = 0;
  if (const uint32_t exponent = magnitude >> kFloatMantissaBits;
      exponent > kRebias || kRebias == 0) {
    // A carry out of the mantissa goes into the exponent.
    rounded = ShiftRounded(magnitude - (kRebias << kFloatMantissaBits),
                           static_cast<uint32_t>(Fields::kDropped));
  } else if (const uint32_t below = kRebias - exponent + 1;
             below + static_cast<uint32_t>(Fields::kDropped) <= kFloatMantissaBits + 2) {
    // A subnormal, whose exponent field is zero, from a number with its leading one written out.
    const uint32_t leading = 1U << kFloatMantissaBits;
    rounded = ShiftRounded((magnitude & (leading - 1)) | leading,
                           below + static_cast<uint32_t>(Fields::kDropped));
  }
  return sign | (rounded > Fields::kLargest ? kTooLarge : rounded);
}

// How to compute with a stored type.
template <typename T>
struct Plain {
  using Stored = T;
  using Wide = std::conditional_t<std::is_floating_point_v<T>,
                                  T,
                                  std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>>;

  PRISM_HOST_AND_DEVICE static Wide Load(T value) { return static_cast<Wide>(value); }
  PRISM_HOST_AND_DEVICE static T Store(Wide value) { return static_cast<T>(value); }
};

template <typename T, SmallFormat kFormat>
struct Small {
  using Stored = T;
  using Wide = float;

  PRISM_HOST_AND_DEVICE static float Load(T value) { return Widen<kFormat>(value); }
  PRISM_HOST_AND_DEVICE static T Store(float value) {
    return static_cast<T>(Narrow<kFormat>(value));
  }
};

// Integers wrap around as on the device; unsigned arithmetic keeps that defined.
template <typename T>
PRISM_HOST_AND_DEVICE inline T WrapAdd(T left, T right) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(static_cast<uint64_t>(left) + static_cast<uint64_t>(right));
  } else {
    return left + right;
  }
}

template <typename T>
PRISM_HOST_AND_DEVICE inline T WrapMultiply(T left, T right) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(static_cast<uint64_t>(left) * static_cast<uint64_t>(right));
  } else {
    return left * right;
  }
}

template <typename T>
PRISM_HOST_AND_DEVICE inline T ApplyBits(ReduceKind kind, T left, T right) {
  if constexpr (std::is_integral_v<T>) {
    return kind == ReduceKind::kBitAnd  ? left & right
           : kind == ReduceKind::kBitOr ? left | right
                                        : left ^ right;
  } else {
    return left;
  }
}

template <typename T>
PRISM_HOST_AND_DEVICE inline T Apply(ReduceKind kind, T left, T right) {
  switch (kind) {
    case ReduceKind::kProd:
      return WrapMultiply(left, right);
    case ReduceKind::kMax:
      return left < right ? right : left;
    case ReduceKind::kMin:
      return right < left ? right : left;
    case ReduceKind::kBitAnd:
    case ReduceKind::kBitOr:
    case ReduceKind::kBitXor:
      return ApplyBits(kind, left, right);
    case ReduceKind::kSum:
    case ReduceKind::kAvg:
      break;
  }
  return WrapAdd(left, right);
}

// `times` equal contributions as one.
template <typename T>
PRISM_HOST_AND_DEVICE inline T Repeat(ReduceKind kind, T value, int32_t times) {
  if (kind == ReduceKind::kSum || kind == ReduceKind::kAvg) {
    return WrapMultiply(value, static_cast<T>(times));
  }
  if (kind == ReduceKind::kProd) {
    T product = value;
    for (int32_t i = 1; i < times; ++i) {
      product = WrapMultiply(product, value);
    }
    return product;
  }
  if (kind == ReduceKind::kBitXor && times % 2 == 0) {
    return ApplyBits(kind, value, value);
  }
  return value;
}

// A reduction over `present` contributions of `present` + `absent` members.
struct Members {
  int32_t present;
  int32_t absent;
};

// One element of it (reduction.h: CombineContributions); `stored(member)` is what a member
// contributes.
template <typename Traits, typename StoredOf>
PRISM_HOST_AND_DEVICE inline typename Traits::Stored CombineElement(const StoredOf& stored,
                                                                    Members members,
                                                                    Reduction reduction) {
  using Wide = typename Traits::Wide;
  const auto scale = static_cast<Wide>(reduction.scale);
  Wide total{};
  for (int32_t member = 0; member < members.present; ++member) {
    const Wide value = WrapMultiply(Traits::Load(stored(member)), scale);
    total = member == 0 ? Repeat(reduction.kind, value, 1 + members.absent)
                        : Apply(reduction.kind, total, value);
  }
  if (reduction.kind == ReduceKind::kAvg) {
    total = static_cast<Wide>(total / static_cast<Wide>(members.present + members.absent));
  }
  return Traits::Store(total);
}

// Calls `body` with the traits of an element type.
template <typename Body>
PRISM_HOST_AND_DEVICE inline void DispatchElement(Element element, const Body& body) {
  switch (element) {
    case Element::kInt8:
      return body(Plain<int8_t>());
    case Element::kUint8:
      return body(Plain<uint8_t>());
    case Element::kInt32:
      return body(Plain<int32_t>());
    case Element::kUint32:
      return body(Plain<uint32_t>());
    case Element::kInt64:
      return body(Plain<int64_t>());
    case Element::kUint64:
      return body(Plain<uint64_t>());
    case Element::kFloat16:
      return body(Small<uint16_t, kHalf>());
    case Element::kFloat32:
      return body(Plain<float>());
    case Element::kFloat64:
      return body(Plain<double>());
    case Element::kBfloat16:
      return body(Small<uint16_t, kBfloat>());
    case Element::kFloat8E4m3:
      return body(Small<uint8_t, kE4m3>());
    case Element::kFloat8E5m2:
      return body(Small<uint8_t, kE5m2>());
  }
}

}  // namespace prism::shim
