// One iteration of a rank as recorded, and how it compares with others.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "slicer/record/op_tables.h"

namespace prism::slicer {

// `closed` counts the ops up to its end marker; what follows belongs to
// the way to the next iteration, or, after the last one, to the end of the program.
struct Iteration {
  std::vector<CanonicalOp> ops;
  OpTables tables;
  uint32_t closed = 0;
  std::vector<uint32_t> late_waits;  // of `ops` as recorded: late_waits.h
  bool has_backward = false;         // some of it was issued in a backward pass of autograd's
};

// Takes out what the caching allocator takes from the device or gives back; returns how many ops.
int64_t DropSegments(Iteration* iteration);

// Without the ranges that the program names: it may number its steps by them, as torch.profiler
// does ("ProfilerStep#4").
Iteration WithoutRanges(Iteration iteration);

// What the emulation compares: waits and time of the host are no departure from the graph, nor are
// records of events that no stream waits for (DistributedDataParallel times its first ten steps).
Iteration WithoutWaits(Iteration iteration);

// The op at `index` in words.
std::string DescribeAt(const Iteration& iteration, size_t index);

// Index of the first op that differs within `count` ops; nothing when none does.
std::optional<size_t> FirstDifference(const Iteration& a, const Iteration& b, size_t count);

// Whether no op of theirs differs.
bool DoSame(const Iteration& a, const Iteration& b);

// Whether each op of one is one of the other, wherever it stands.
bool DoSameInAnotherOrder(const Iteration& a, const Iteration& b);

// Optimizers that take turns: at most this many steps until the first comes again.
inline constexpr int32_t kMaxStepsInTurn = 6;

// The least number, from 2, of iterations in a row that each equal the one that many before; of
// several such rows the last counts: what follows it may be something that the program does now and
// then. Nothing where there is none.
std::optional<int32_t> FindPeriod(const std::vector<Iteration>& iterations);

}  // namespace prism::slicer
