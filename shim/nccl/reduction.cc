#include "shim/nccl/reduction.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

namespace prism::shim {

namespace {

// A floating-point format of at most 16 bits. `saturates`: no infinities are produced, as CUDA's
// conversions to 8 bits do; e4m3 has none at all.
struct SmallFormat {
  int exponent_bits;
  int mantissa_bits;
  bool has_infinity;
  bool saturates;
};

constexpr SmallFormat kHalf{5, 10, true, false};
constexpr SmallFormat kBfloat{8, 7, true, false};
constexpr SmallFormat kE4m3{4, 3, false, true};
constexpr SmallFormat kE5m2{5, 2, true, true};

constexpr uint32_t MaxExponent(const SmallFormat& format) {
  return (1U << static_cast<uint32_t>(format.exponent_bits)) - 1;
}

constexpr int Bias(const SmallFormat& format) {
  return (1 << (format.exponent_bits - 1)) - 1;
}

template <SmallFormat kFormat>
float Widen(uint32_t bits) {
  constexpr uint32_t kMantissaMask = (1U << kFormat.mantissa_bits) - 1;
  const uint32_t mantissa = bits & kMantissaMask;
  const uint32_t exponent = (bits >> kFormat.mantissa_bits) & MaxExponent(kFormat);
  const bool negative = (bits >> (kFormat.mantissa_bits + kFormat.exponent_bits)) != 0;
  float value = 0;
  if (exponent == MaxExponent(kFormat) && (kFormat.has_infinity || mantissa == kMantissaMask)) {
    const bool infinite = kFormat.has_infinity && mantissa == 0;
    value =
        infinite ? std::numeric_limits<float>::infinity() : std::numeric_limits<float>::quiet_NaN();
  } else if (exponent == 0) {
    value = std::ldexp(static_cast<float>(mantissa), 1 - Bias(kFormat) - kFormat.mantissa_bits);
  } else {
    value = std::ldexp(static_cast<float>(mantissa | (kMantissaMask + 1)),
                       static_cast<int>(exponent) - Bias(kFormat) - kFormat.mantissa_bits);
  }
  return negative ? -value : value;
}

// Rounds to nearest, ties to even.
template <SmallFormat kFormat>
uint32_t Narrow(float value) {
  constexpr uint32_t kMantissaMask = (1U << kFormat.mantissa_bits) - 1;
  constexpr uint32_t kTop = MaxExponent(kFormat) << kFormat.mantissa_bits;
  // The largest finite value: all ones below infinity, or one below the only NaN of e4m3.
  constexpr uint32_t kLargest = kFormat.has_infinity ? kTop - 1 : (kTop | (kMantissaMask - 1));
  const uint32_t sign =
      std::signbit(value) ? 1U << (kFormat.mantissa_bits + kFormat.exponent_bits) : 0;
  const float magnitude = std::fabs(value);
  if (std::isnan(value)) {
    return sign | kTop | kMantissaMask;
  }
  if (magnitude == 0) {
    return sign;
  }
  if (std::isinf(value)) {
    return sign | (kFormat.saturates ? kLargest : kTop);
  }
  const int exponent = std::max(std::ilogb(magnitude), 1 - Bias(kFormat));
  const float scaled = std::ldexp(magnitude, kFormat.mantissa_bits - exponent);
  const auto rounded = static_cast<uint32_t>(std::nearbyint(scaled));
  // A carry out of the mantissa lands in the exponent, a subnormal has exponent field zero: both by
  // adding instead of composing.
  const int64_t base = static_cast<int64_t>(exponent + Bias(kFormat) - 1) << kFormat.mantissa_bits;
  const auto bits = static_cast<uint64_t>(base + rounded);
  if (bits > kLargest) {
    return sign | (kFormat.saturates ? kLargest : kTop);
  }
  return sign | static_cast<uint32_t>(bits);
}

// How a stored type is computed with.
template <typename T>
struct Plain {
  using Stored = T;
  using Wide = std::conditional_t<std::is_floating_point_v<T>,
                                  T,
                                  std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>>;

  static Wide Load(T value) { return static_cast<Wide>(value); }
  static T Store(Wide value) { return static_cast<T>(value); }
};

template <typename T, SmallFormat kFormat>
struct Small {
  using Stored = T;
  using Wide = float;

  static float Load(T value) { return Widen<kFormat>(value); }
  static T Store(float value) { return static_cast<T>(Narrow<kFormat>(value)); }
};

// Integers wrap around like the device's do; unsigned arithmetic keeps that defined.
template <typename T>
T WrapAdd(T left, T right) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(static_cast<uint64_t>(left) + static_cast<uint64_t>(right));
  } else {
    return left + right;
  }
}

template <typename T>
T WrapMultiply(T left, T right) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(static_cast<uint64_t>(left) * static_cast<uint64_t>(right));
  } else {
    return left * right;
  }
}

template <typename T>
T ApplyBits(ReduceKind kind, T left, T right) {
  if constexpr (std::is_integral_v<T>) {
    return kind == ReduceKind::kBitAnd  ? left & right
           : kind == ReduceKind::kBitOr ? left | right
                                        : left ^ right;
  } else {
    return left;
  }
}

template <typename T>
T Apply(ReduceKind kind, T left, T right) {
  switch (kind) {
    case ReduceKind::kProd:
      return WrapMultiply(left, right);
    case ReduceKind::kMax:
      return std::max(left, right);
    case ReduceKind::kMin:
      return std::min(left, right);
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
T Repeat(ReduceKind kind, T value, int32_t times) {
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

template <typename Traits>
void Combine(const ReductionInput& input, Reduction reduction, size_t count, void* out) {
  using Stored = typename Traits::Stored;
  using Wide = typename Traits::Wide;
  const auto members =
      static_cast<Wide>(input.contributions.size() + static_cast<size_t>(input.absent));
  const auto scale = static_cast<Wide>(reduction.scale);
  auto* target = static_cast<Stored*>(out);
  for (size_t i = 0; i < count; ++i) {
    Wide total{};
    for (size_t member = 0; member < input.contributions.size(); ++member) {
      const auto* source = reinterpret_cast<const Stored*>(input.contributions[member]);
      const Wide value = WrapMultiply(Traits::Load(source[i]), scale);
      total = member == 0 ? Repeat(reduction.kind, value, 1 + input.absent)
                          : Apply(reduction.kind, total, value);
    }
    if (reduction.kind == ReduceKind::kAvg) {
      total = static_cast<Wide>(total / members);
    }
    target[i] = Traits::Store(total);
  }
}

// Calls `body` with the traits of an element type.
template <typename Body>
void Dispatch(Element element, const Body& body) {
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
  Dispatch(element, load);
  return out;
}

void WriteScalar(void* at, Element element, double value) {
  Dispatch(element, [&]<typename Traits>(Traits /*traits*/) {
    const typename Traits::Stored stored = Traits::Store(static_cast<typename Traits::Wide>(value));
    std::memcpy(at, &stored, sizeof(stored));
  });
}

const char* ElementName(Element element) {
  constexpr const char* kNames[kElementCount] = {"int8",    "uint8",    "int32",      "uint32",
                                                 "int64",   "uint64",   "float16",    "float32",
                                                 "float64", "bfloat16", "float8e4m3", "float8e5m2"};
  return kNames[static_cast<size_t>(element)];
}

const char* ReduceKindName(ReduceKind kind) {
  constexpr const char* kNames[] = {"sum", "prod",   "max",   "min",
                                    "avg", "bitand", "bitor", "bitxor"};
  return kNames[static_cast<size_t>(kind)];
}

void CombineContributions(
    const ReductionInput& input, Element element, Reduction reduction, size_t count, void* out) {
  Dispatch(element, [&]<typename Traits>(Traits /*traits*/) {
    Combine<Traits>(input, reduction, count, out);
  });
}

}  // namespace prism::shim
