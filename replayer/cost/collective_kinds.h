// What kinds of collectives have in common for their cost.
#pragma once

#include "graph/op.h"

namespace prism::replayer {

// From or to a root, passed on from rank to rank.
constexpr bool IsChain(graph::CollectiveKind kind) {
  return kind == graph::CollectiveKind::kBroadcast || kind == graph::CollectiveKind::kReduce;
}

}  // namespace prism::replayer
