// Graph structures ↔ payloads of the chunks of a file (graph.proto). Large tables are written in
// runs: an Encode function writes the run that begins at `begin` and returns where the next one
// begins; the Decode function appends one run. Decoding checks every index against the tables
// decoded before it, so that what comes out can be indexed without further checks; it fails with
// kBadFile and a message that the caller completes with file and offset. No protobuf type appears
// here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "graph/base/status.h"
#include "graph/fragment.h"
#include "graph/graph.h"

namespace prism::graph {

// Ops in a chunk at most.
inline constexpr size_t kMaxOpsPerChunk = size_t{1} << 16U;

struct Run {
  std::string payload;
  size_t end = 0;  // first entry that is not in the run
};

// Lengths of a graph's tables. The head of a file announces them.
struct TableSizes {
  uint32_t strings = 0;
  uint32_t signatures = 0;
  uint32_t roles = 0;
  uint32_t communicators = 0;
  uint32_t ranks = 0;
};

TableSizes SizesOf(const Graph& graph);

std::string EncodeHead(const Graph& graph);
Status DecodeHead(std::string_view payload, TableSizes* sizes, Graph* graph);

Run EncodeStrings(const std::vector<std::string>& strings, size_t begin);
Status DecodeStrings(std::string_view payload, std::vector<std::string>* strings);

Run EncodeSignatures(const std::vector<KernelSignature>& signatures, size_t begin);
Status DecodeSignatures(std::string_view payload,
                        const TableSizes& sizes,
                        std::vector<KernelSignature>* signatures);

// Everything of a role but its ops.
std::string EncodeRole(const Role& role);
Status DecodeRole(std::string_view payload,
                  const TableSizes& sizes,
                  Role* role,
                  uint32_t* op_count);

Run EncodeOps(const Program& program, size_t begin);
Status DecodeOps(std::string_view payload, const TableSizes& sizes, Program* program);

Run EncodeCommunicators(const CommunicatorTable& table, size_t begin);
Status DecodeCommunicators(std::string_view payload,
                           const TableSizes& sizes,
                           CommunicatorTable* table);

// `graph` holds the roles; its rank table is appended to.
Run EncodeRanks(const RankTable& table, size_t begin);
Status DecodeRanks(std::string_view payload, const TableSizes& sizes, Graph* graph);

std::string EncodeNotes(const Graph& graph);
Status DecodeNotes(std::string_view payload, const TableSizes& sizes, Graph* graph);

// Everything of a fragment but strings, signatures and ops.
std::string EncodeFragmentHead(const Fragment& fragment);
Status DecodeFragmentHead(std::string_view payload,
                          TableSizes* sizes,
                          Fragment* fragment,
                          uint32_t* op_count);

}  // namespace prism::graph
