// How two graphs differ, worst first: for `prism diff`, and for tests that two ways of making a
// graph agree. Ids are compared by what they refer to, so graphs that differ only in numbering are
// equal.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace prism::graph {

// What a difference is about, in the order of the report.
enum class DifferenceKind : uint8_t {
  kJob,           // a field of the job or the layout
  kCluster,       // a number of the cluster, its GPU or its network
  kRole,          // a role that only one side has, or with a different number of ranks
  kProgram,       // ops of a role
  kCommunicator,  // members or names
  kSignature,     // kernels that only one side has
  kMemory,        // peaks of a role
  kRankTable,     // roles, communicators and peers of ranks
};

const char* DifferenceKindName(DifferenceKind kind);

struct Difference {
  DifferenceKind kind = DifferenceKind::kJob;
  std::string where;  // "role stage 3", "job.parallel.tp"
  std::string left;   // "" where the side has nothing
  std::string right;
  int64_t count = 1;  // ops, ranks, communicators, ... that differ there
};

// Compares values; where numbers come from may differ.
std::vector<Difference> DiffClusters(const ClusterSpec& left, const ClusterSpec& right);

// Ordered by kind, then by falling count, then by place. Empty when the graphs are equal in
// everything but file layout, warnings, the source column of ranks, and the stated origin of a
// model's shape and default sequence length.
std::vector<Difference> DiffGraphs(const Graph& left, const Graph& right);

}  // namespace prism::graph
