#include "graph/base/data_type.h"

#include <array>
#include <cstddef>

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
static_assert(kDataTypes.size() == static_cast<size_t>(DataType::kFloat64) + 1);

}  // namespace

int64_t DataTypeBytes(DataType type) {
  return kDataTypes.at(static_cast<size_t>(type)).bytes;
}

const char* DataTypeName(DataType type) {
  return kDataTypes.at(static_cast<size_t>(type)).name;
}

}  // namespace prism
