// What kinds of collectives have in common, and tables of their shapes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "graph/base/enum_names.h"
#include "graph/program/op.h"

namespace prism::graph {

inline constexpr EnumNames<CollectiveKind, 8> kCollectiveKindNames = {
    {{CollectiveKind::kAllReduce, "all_reduce"},
     {CollectiveKind::kAllGather, "all_gather"},
     {CollectiveKind::kReduceScatter, "reduce_scatter"},
     {CollectiveKind::kBroadcast, "broadcast"},
     {CollectiveKind::kReduce, "reduce"},
     {CollectiveKind::kAllToAll, "all_to_all"},
     {CollectiveKind::kGather, "gather"},
     {CollectiveKind::kScatter, "scatter"}}};

// True for the kinds that combine what the ranks contribute, and so have a ReduceOp.
inline bool Reduces(CollectiveKind kind) {
  return kind == CollectiveKind::kAllReduce || kind == CollectiveKind::kReduce ||
         kind == CollectiveKind::kReduceScatter;
}

// True where one rank sends or receives everything: CollectiveShape::root names it.
inline bool HasRoot(CollectiveKind kind) {
  return kind == CollectiveKind::kReduce || kind == CollectiveKind::kBroadcast ||
         kind == CollectiveKind::kGather || kind == CollectiveKind::kScatter;
}

// From or to a root, passed on from rank to rank.
constexpr bool IsChain(CollectiveKind kind) {
  return kind == CollectiveKind::kBroadcast || kind == CollectiveKind::kReduce;
}

// Index of `shape` among the distinct `shapes` of a program, to which it is appended if it is new.
inline uint32_t IndexOfShape(const CollectiveShape& shape, std::vector<CollectiveShape>* shapes) {
  const auto known = std::ranges::find(*shapes, shape);
  const auto index = static_cast<uint32_t>(known - shapes->begin());
  if (known == shapes->end()) {
    shapes->push_back(shape);
  }
  return index;
}

}  // namespace prism::graph
