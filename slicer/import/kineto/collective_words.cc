#include "slicer/import/kineto/collective_words.h"

#include <algorithm>
#include <string>
#include <utility>

#include "graph/base/lower_case.h"
#include "graph/program/collective_kinds.h"

namespace prism::slicer {
namespace {

using graph::CollectiveKind;

// Parts of names, in lower case without "_"; the first one that a name contains decides.
constexpr std::pair<std::string_view, CollectiveKind> kWordKinds[] = {
    {"allreduce", CollectiveKind::kAllReduce}, {"reducescatter", CollectiveKind::kReduceScatter},
    {"allgather", CollectiveKind::kAllGather}, {"alltoall", CollectiveKind::kAllToAll},
    {"broadcast", CollectiveKind::kBroadcast}, {"barrier", CollectiveKind::kAllReduce},
    {"reduce", CollectiveKind::kReduce},       {"gather", CollectiveKind::kGather},
    {"scatter", CollectiveKind::kScatter},
};

// Parts of the names of kernels.
constexpr std::string_view kCommunicating[] = {
    "deep_ep::",
    "nvshmem",
    "mscclpp",
    "cross_device_reduce",
    "one_shot_all_reduce",
    "two_shot_all_reduce",
    "multimem_all_reduce",
    "allreduce_fusion",
};

// c10::ScalarType's names, and the C++ type names in older profiles.
constexpr std::pair<std::string_view, DataType> kTypes[] = {
    {"complex", DataType::kUnknown},     {"uint64", DataType::kInt64},
    {"uint32", DataType::kInt32},        {"uint16", DataType::kInt16},
    {"bfloat16", DataType::kBfloat16},   {"float8", DataType::kFloat8},
    {"half", DataType::kFloat16},        {"double", DataType::kFloat64},
    {"float", DataType::kFloat32},       {"long", DataType::kInt64},
    {"short", DataType::kInt16},         {"byte", DataType::kUint8},
    {"unsigned char", DataType::kUint8}, {"char", DataType::kInt8},
    {"signed char", DataType::kInt8},    {"bool", DataType::kBool},
    {"int", DataType::kInt32},
};

std::string Squeezed(std::string_view name) {
  std::string text = LowerCase(name);
  std::erase(text, '_');
  return text;
}

std::optional<CollectiveKind> KindIn(std::string_view name) {
  const std::string text = Squeezed(name);
  for (const auto& [word, kind] : kWordKinds) {
    if (text.find(word) != std::string::npos) {
      return kind;
    }
  }
  return std::nullopt;
}

}  // namespace

DataType NotedType(std::string_view name) {
  const std::string text = LowerCase(name);
  for (const auto& [word, type] : kTypes) {
    if (text.find(word) != std::string::npos) {
      return type;
    }
  }
  return DataType::kUnknown;
}

int64_t BytesOf(const KinetoCollective& noted) {
  return noted.elements * DataTypeBytes(NotedType(noted.dtype));
}

bool IsCollective(const KinetoRange& task) {
  constexpr std::string_view kLibraries[] = {"nccl", "rccl", "msccl"};
  std::string_view kernel = task.name;
  kernel.remove_prefix(kernel.starts_with("void ") ? std::string_view("void ").size() : 0);
  const bool is_of_library = std::ranges::any_of(
      kLibraries, [&](std::string_view library) { return kernel.starts_with(library); });
  return !task.collective().name.empty() ||
         (is_of_library && kernel.find("Kernel") != std::string_view::npos);
}

bool IsOtherCommunication(std::string_view kernel) {
  return std::ranges::any_of(kCommunicating, [&](std::string_view word) {
    return kernel.find(word) != std::string_view::npos;
  });
}

std::optional<graph::CollectiveShape> ShapeOf(const KinetoCollective& noted,
                                              std::string_view kernel) {
  const std::optional<CollectiveKind> kind =
      KindIn(noted.name.empty() ? kernel.substr(0, kernel.find('(')) : noted.name);
  if (!kind) {
    return std::nullopt;
  }
  graph::CollectiveShape shape;
  shape.kind = *kind;
  shape.dtype = NotedType(noted.dtype);
  shape.bytes = noted.elements * DataTypeBytes(shape.dtype);
  shape.reduce = graph::Reduces(*kind) ? graph::ReduceOp::kSum : graph::ReduceOp::kNone;
  shape.root = graph::HasRoot(*kind) ? 0 : -1;
  return shape;
}

}  // namespace prism::slicer
