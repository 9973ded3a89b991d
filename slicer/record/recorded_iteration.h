// One iteration of a rank as recorded, and how it compares with others.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "slicer/record/op_tables.h"

namespace prism::slicer {

// `closed` counts the ops up to its end marker; what follows belongs to the transition to the next
// iteration or, after the last one, to the end of the program.
struct Iteration {
  std::vector<CanonicalOp> ops;
  OpTables tables;
  uint32_t closed = 0;
  std::vector<uint32_t> late_waits;  // of `ops` as recorded: late_waits.h
  int64_t backward_kernels = 0;      // issued in an autograd backward pass
};

// Removes the caching allocator's allocations from the device and releases; returns the number of
// ops.
int64_t DropSegments(Iteration* iteration);

// Without the ranges that the program names: it may number its steps in them, as torch.profiler
// does ("ProfilerStep#4").
Iteration WithoutRanges(Iteration iteration);

// What the emulation compares: waits and host time do not count as departures from the graph, nor
// do records of events that no stream waits for (DistributedDataParallel times its first ten
// steps).
Iteration WithoutWaits(Iteration iteration);

int64_t OptimizerSteps(const Iteration& iteration);

// Describes the op at `index`.
std::string DescribeAt(const Iteration& iteration, size_t index);

// Index of the first op that differs within `count` ops; null if none does.
std::optional<size_t> FirstDifference(const Iteration& a, const Iteration& b, size_t count);

// Whether none of their ops differ.
bool DoSame(const Iteration& a, const Iteration& b);

// Whether both communicate alike, in any amounts: the same calls, in the same order, on the same
// streams and with the same ranks.
bool CommunicateAlike(const Iteration& a, const Iteration& b);

// Whether each op of one is one of the other, in any order.
bool DoSameInAnotherOrder(const Iteration& a, const Iteration& b);

// Optimizers that take turns: at most this many steps until the first one recurs.
inline constexpr int32_t kMaxStepsInTurn = 6;

// The smallest number n, at least 2, such that in a run of iterations each equals the one n before;
// of several such runs the last counts: what follows it may be something that the program does only
// now and then. Null if there is none.
std::optional<int32_t> FindPeriod(const std::vector<Iteration>& iterations);

}  // namespace prism::slicer
