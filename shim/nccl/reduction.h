// Element types and reduction arithmetic of collectives, on plain host buffers. The numbers of both
// enumerations are NCCL's (ncclDataType_t, ncclRedOp_t), so that entry points pass them through;
// reductions that only CPU backends have follow.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace prism::shim {

enum class Element : uint8_t {
  kInt8 = 0,
  kUint8 = 1,
  kInt32 = 2,
  kUint32 = 3,
  kInt64 = 4,
  kUint64 = 5,
  kFloat16 = 6,
  kFloat32 = 7,
  kFloat64 = 8,
  kBfloat16 = 9,
  kFloat8E4m3 = 10,
  kFloat8E5m2 = 11,
};

inline constexpr int kElementCount = 12;

size_t ElementBytes(Element element);

// Inline, for libprism_rendezvous.so, which does not link this library.
inline const char* ElementName(Element element) {
  constexpr const char* kNames[kElementCount] = {"int8",    "uint8",    "int32",      "uint32",
                                                 "int64",   "uint64",   "float16",    "float32",
                                                 "float64", "bfloat16", "float8e4m3", "float8e5m2"};
  return kNames[static_cast<size_t>(element)];
}

// One element as a number.
double ReadScalar(const void* at, Element element);
void WriteScalar(void* at, Element element, double value);

enum class ReduceKind : uint8_t {
  kSum = 0,
  kProd = 1,
  kMax = 2,
  kMin = 3,
  kAvg = 4,
  kBitAnd = 5,  // bitwise ones are for integers; for other types the first contribution is the
                // result
  kBitOr = 6,
  kBitXor = 7,
};

const char* ReduceKindName(ReduceKind kind);

// A reduction over all members of a communicator. `scale` multiplies every contribution first
// (ncclRedOpCreatePreMulSum); it is used with kSum only.
struct Reduction {
  ReduceKind kind = ReduceKind::kSum;
  double scale = 1;
};

// Combines one chunk of all present members into `out` (which may be one of the inputs):
// contributions in ascending order of rank, the first of them counted 1 + `absent` times for the
// members that are not there. Floating-point types narrower than 32 bits accumulate in float32 and
// are rounded once, to nearest even. Averages divide by the number of all members; for integers
// they round towards zero.
struct ReductionInput {
  std::span<const std::byte* const> contributions;
  int32_t absent;
};
void CombineContributions(
    const ReductionInput& input, Element element, Reduction reduction, size_t count, void* out);

}  // namespace prism::shim
