// How two programs differ, op by op. Used for recorded ranks that should do the same, and for roles
// of two graphs. Ops are compared by what they do, not by the ids of their signatures and strings.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graph/program/op.h"
#include "graph/program/signature.h"

namespace prism::graph {

// The ops in which two programs differ. Ops are aligned by equal runs at both ends; between them
// the longest common subsequence decides where that is affordable.
struct ProgramDifference {
  int64_t added = 0;    // only on the right
  int64_t removed = 0;  // only on the left
  int64_t changed = 0;  // in the same place, but different
  int64_t first = -1;   // index of the first op that differs, -1 when equal
  std::string left;     // that op in words, "" past the end
  std::string right;

  [[nodiscard]] bool equal() const { return first < 0; }
};

// One side of a program comparison; borrows.
struct ProgramView {
  const Program* program = nullptr;
  const std::vector<std::string>* strings = nullptr;
  const std::vector<KernelSignature>* signatures = nullptr;
};

ProgramDifference CompareOps(const ProgramView& left, const ProgramView& right);

}  // namespace prism::graph
