#include "graph/base/data_type.h"

#include <array>
#include <cstddef>
#include <utility>

namespace prism {
namespace {

struct DataTypeInfo {
  const char* name;
  int64_t bytes;
};

constexpr std::array<DataTypeInfo, 12> kDataTypes = {{{"unknown", 0},
                                                      {"bool", 1},
                                                      {"int8", 1},
                                                      {"uint8", 1},
                                                      {"int16", 2},
                                                      {"int32", 4},
                                                      {"int64", 8},
                                                      {"float8", 1},
                                                      {"float16", 2},
                                                      {"bfloat16", 2},
                                                      {"float32", 4},
                                                      {"float64", 8}}};
constexpr std::array<std::pair<std::string_view, DataType>, 11> kOtherNames = {
    {{"fp8", DataType::kFloat8},
     {"fp16", DataType::kFloat16},
     {"f16", DataType::kFloat16},
     {"half", DataType::kFloat16},
     {"bf16", DataType::kBfloat16},
     {"fp32", DataType::kFloat32},
     {"f32", DataType::kFloat32},
     {"float", DataType::kFloat32},
     {"fp64", DataType::kFloat64},
     {"f64", DataType::kFloat64},
     {"double", DataType::kFloat64}}};
static_assert(kDataTypes.size() == static_cast<size_t>(DataType::kFloat64) + 1);

}  // namespace

int64_t DataTypeBytes(DataType type) {
  return kDataTypes.at(static_cast<size_t>(type)).bytes;
}

const char* DataTypeName(DataType type) {
  return kDataTypes.at(static_cast<size_t>(type)).name;
}

std::optional<DataType> DataTypeNamed(std::string_view name) {
  for (size_t type = 1; type < kDataTypes.size(); ++type) {
    if (name == kDataTypes[type].name) {
      return static_cast<DataType>(type);
    }
  }
  for (const auto& [other, type] : kOtherNames) {
    if (name == other) {
      return type;
    }
  }
  return std::nullopt;
}

}  // namespace prism
