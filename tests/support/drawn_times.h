// How long the simulated GPU takes for an op: drawn by a seed from what the op is and, for kernels,
// from the kernel before it, as caches would have it. The same from a record and from a graph.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "graph/base/fnv.h"
#include "graph/graph.h"
#include "shim/channel/messages.h"

namespace prism::testing {

template <typename... Numbers>
std::string DrawnText(std::string text, Numbers... numbers) {
  (text.append(1, ' ').append(std::to_string(numbers)), ...);
  return text;
}

inline std::string DrawnCopy(int64_t bytes, bool to_device, bool to_host) {
  return DrawnText("copy", bytes, to_device ? 1 : 0, to_host ? 1 : 0);
}

inline std::string DrawnSet(int64_t bytes) {
  return DrawnText("set", bytes);
}

template <typename Sizes>
std::string DrawnKernel(const std::string& name, const Sizes& grid, const Sizes& block) {
  return DrawnText("kernel " + name, grid[0], grid[1], grid[2], block[0], block[1], block[2]);
}

// A record's or a graph's product.
template <typename Product>
std::string DrawnProduct(const std::string& name, const Product& product) {
  return DrawnText("product " + name, product.m, product.n, product.k, product.batch);
}

// "" for what the GPU does not run.
inline std::string DrawnOp(const channel::Record& record,
                           const std::map<uint32_t, std::string>& names) {
  const auto name = [&](uint32_t id) {
    const auto found = names.find(id);
    return found == names.end() ? std::string("?") : found->second;
  };
  switch (record.kind) {
    case channel::RecordKind::kKernel:
      return DrawnKernel(name(record.kernel.name), record.kernel.grid, record.kernel.block);
    case channel::RecordKind::kMatmul:
      return DrawnProduct(name(record.matmul.name), record.matmul);
    case channel::RecordKind::kMemcpy:
      return DrawnCopy(record.copy.bytes, record.copy.host_to_device != 0,
                       record.copy.device_to_host != 0);
    case channel::RecordKind::kMemset:
      return DrawnSet(record.copy.bytes);
    default:
      return "";
  }
}

inline std::string DrawnOp(const graph::Graph& graph, const graph::Program& program, uint32_t op) {
  switch (program.kind[op]) {
    case graph::OpKind::kKernel: {
      const graph::KernelSignature& signature = graph.signatures[program.signature[op]];
      const std::string& name = graph.string(signature.name);
      return signature.matmul.m > 0 ? DrawnProduct(name, signature.matmul)
                                    : DrawnKernel(name, signature.grid, signature.block);
    }
    case graph::OpKind::kMemcpy:
      return DrawnCopy(program.value[op], (program.flags[op] & graph::kHostToDevice) != 0,
                       (program.flags[op] & graph::kDeviceToHost) != 0);
    case graph::OpKind::kMemset:
      return DrawnSet(program.value[op]);
    default:
      return "";
  }
}

inline bool IsDrawnKernel(std::string_view op) {
  return op.starts_with("kernel") || op.starts_with("product");
}

// 2 to 100 µs. `before`: the kernel issued before.
inline int64_t DrawnNs(uint64_t seed, std::string_view op, std::string_view before) {
  constexpr uint64_t kShortest = 2'000;
  constexpr uint64_t kRange = 98'000;
  uint64_t hash = FnvHash(IsDrawnKernel(op) ? before : "", FnvHash(op, kFnvSeed ^ seed));
  hash = (hash ^ (hash >> 29U)) * 0xBF58476D1CE4E5B9U;
  return static_cast<int64_t>(kShortest + (hash >> 20U) % kRange);
}

}  // namespace prism::testing
