#include "slicer/record/first_time_work.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "graph/describe.h"
#include "slicer/record/op_tables.h"

namespace prism::slicer {
namespace {

using graph::OpKind;

constexpr size_t kMostNamed = 3;
constexpr uint32_t kOfFirstTime = graph::kNoDep - 1;  // the place of no op

// Kernels by what the framework did.
std::string NameOf(CanonicalOp op, const OpTables& tables) {
  if (op.kind == OpKind::kKernel) {
    const std::string& name = tables.strings[tables.signatures[op.signature].framework_op.value()];
    if (!name.empty()) {
      return name;
    }
  }
  op.dep = graph::kNoDep;
  return graph::WithoutTemplates(DescribeOp(op, tables));
}

// How often each is done; false if one of them may be training.
bool AddFirstTime(const Iteration& earlier,
                  const CanonicalOp& op,
                  std::map<std::string, int64_t>* counts) {
  if (op.kind == OpKind::kPeerGroup || MatrixProducts(op, earlier.tables) > 0 ||
      ReducedBytes(op, earlier.tables) > kLogBytes) {
    return false;
  }
  ++(*counts)[NameOf(op, earlier.tables)];
  return true;
}

FirstTimeWork Sum(const std::map<std::string, int64_t>& counts) {
  FirstTimeWork work;
  std::vector<std::pair<int64_t, std::string>> kinds;
  for (const auto& [text, count] : counts) {
    work.ops += count;
    kinds.emplace_back(-count, text);
  }
  std::ranges::sort(kinds);
  for (size_t i = 0; i < std::min(kinds.size(), kMostNamed); ++i) {
    work.text += fmt::format("{}{} × {}", i == 0 ? "" : ", ", -kinds[i].first, kinds[i].second);
  }
  return work;
}

}  // namespace

std::optional<FirstTimeWork> FindFirstTimeWork(const Iteration& earlier, const Iteration& later) {
  if (OptimizerSteps(earlier) != OptimizerSteps(later)) {
    return std::nullopt;
  }
  Iteration first = WithoutRanges(earlier);
  Iteration second = WithoutRanges(later);
  DropSegments(&first);
  DropSegments(&second);
  std::map<std::string, int64_t> counts;
  std::vector<uint32_t> new_index;
  uint32_t matched = 0;
  for (CanonicalOp op : first.ops) {
    op.dep = op.dep == graph::kNoDep ? op.dep : new_index[op.dep];
    if (matched < second.ops.size() &&
        SameOp(op, first.tables, second.ops[matched], second.tables)) {
      new_index.push_back(matched++);
      continue;
    }
    new_index.push_back(kOfFirstTime);
    if (!AddFirstTime(first, op, &counts)) {
      return std::nullopt;
    }
  }
  return matched == second.ops.size() ? std::optional(Sum(counts)) : std::nullopt;
}

}  // namespace prism::slicer
