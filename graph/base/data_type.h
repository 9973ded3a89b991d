// Types of the elements of tensors.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

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
// The one spelling that is written: "bfloat16".
const char* DataTypeName(DataType type);
// The type of that name, or of one that others use for it: "bf16", "half", "double". Null: none.
std::optional<DataType> DataTypeNamed(std::string_view name);

}  // namespace prism
