// Compact columns hold the same as a vector.
#include "graph/program/column.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "graph/base/rng.h"
#include "graph/program/op.h"

namespace prism::graph {
namespace {

RC_GTEST_PROP(Column, sparse_rows_read_as_pushed, (uint64_t seed)) {
  Rng rng(seed, "sparse column");
  const int64_t share = rng.UniformInt(1, 70);  // about one in this many rows has a value
  SparseColumn<uint32_t, kNoDep> column;
  std::vector<uint32_t> expected;
  for (int64_t rows = rng.UniformInt(1, 400); rows > 0; --rows) {
    const bool present = rng.UniformInt(1, share) == 1;
    expected.push_back(present ? static_cast<uint32_t>(rng.UniformInt(0, 1 << 30)) : kNoDep);
    column.push_back(expected.back());
  }
  RC_ASSERT(column.size() == expected.size());
  for (size_t row = 0; row < expected.size(); ++row) {
    RC_ASSERT(column[row] == expected[row]);
  }
}

RC_GTEST_PROP(Column, numbers_read_as_set_last, (uint64_t seed)) {
  Rng rng(seed, "number column");
  const auto any = [&] {
    constexpr int64_t kEdge = int64_t{1} << 32U;
    switch (rng.UniformInt(0, 3)) {
      case 0:
        return rng.UniformInt(-2, 2);
      case 1:
        return rng.UniformInt(kEdge - 3, kEdge + 1);
      default:
        return rng.UniformInt(0, kEdge << 20U);
    }
  };
  NumberColumn column;
  NumberColumn pushed;
  std::vector<int64_t> expected;
  for (int64_t rows = rng.UniformInt(1, 100); rows > 0; --rows) {
    expected.push_back(any());
    column.push_back(expected.back());
  }
  for (int64_t edits = rng.UniformInt(0, 100); edits > 0; --edits) {
    const auto row = static_cast<size_t>(rng.UniformInt(0, std::ssize(expected) - 1));
    expected[row] = any();
    column.Set(row, expected[row]);
  }
  for (size_t row = 0; row < expected.size(); ++row) {
    RC_ASSERT(column[row] == expected[row]);
    pushed.push_back(expected[row]);
  }
  RC_ASSERT(column == pushed);
}

RC_GTEST_PROP(Column, ops_appended_at_once_are_as_appended_singly, (uint64_t seed)) {
  Rng rng(seed, "ops");
  Program at_once;
  Program singly;
  for (int64_t runs = rng.UniformInt(1, 20); runs > 0; --runs) {
    OpRow row;
    row.stream = static_cast<uint16_t>(rng.UniformInt(0, 3));
    row.comm_slot = rng.UniformInt(0, 1) == 0 ? kNoSlot : uint16_t{3};
    row.dep = rng.UniformInt(0, 1) == 0 ? kNoDep : 5;
    row.signature = static_cast<uint32_t>(rng.UniformInt(0, 9));
    row.value = rng.UniformInt(0, 1) << rng.UniformInt(0, 40);
    const int64_t times = rng.UniformInt(0, 150);
    at_once.AppendTimes(static_cast<uint32_t>(times), row);
    for (int64_t i = 0; i < times; ++i) {
      singly.Append(row);
    }
  }
  RC_ASSERT(at_once == singly);
}

}  // namespace
}  // namespace prism::graph
