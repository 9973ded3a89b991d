// Types of the elements of tensors.
#pragma once

#include <cstdint>

namespace prism {

enum class DataType : uint8_t {
  kUnknown,
  kBool,
  kInt8,
  kUint8,
  kInt16,
  kInt32,
  kInt64,
  kFloat8,
  kFloat16,
  kBfloat16,
  kFloat32,
  kFloat64,
};

// Bytes of one element; 0 for kUnknown.
int64_t DataTypeBytes(DataType type);
const char* DataTypeName(DataType type);

}  // namespace prism
