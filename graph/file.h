// The graph file: protobuf column chunks of at most 64 Ki ops, zstd per chunk, string table, footer
// index with hashes, a version. The same graph always gives the same bytes. A truncated or damaged
// file gives kBadFile with the offset, never a wrong graph.
#pragma once

#include <string>

#include "graph/base/status.h"
#include "graph/graph.h"

namespace prism::graph {

// Writes under a temporary name and renames. kEnvironment when the path is not writable, kRunFailed
// when the disk fills.
Status WriteGraph(const Graph& graph, const std::string& path);

Result<Graph> ReadGraph(const std::string& path);

// The same from and to memory.
std::string EncodeGraph(const Graph& graph);
Result<Graph> DecodeGraph(std::string_view bytes, const std::string& name_for_messages);

}  // namespace prism::graph
