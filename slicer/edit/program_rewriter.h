// Rewrites a program: ops are kept or dropped in order, others are inserted between them, and
// references to an op follow it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "graph/program/op.h"

namespace prism::slicer {

class ProgramRewriter {
 public:
  // `program` must outlive the rewriter.
  explicit ProgramRewriter(const graph::Program& program);

  // Keeps or drops the next op of the program. Each op is decided once, in order. Nothing may wait
  // for a record that is dropped.
  uint32_t Keep();
  void Drop();
  [[nodiscard]] uint32_t next() const { return next_; }  // op of the old program

  // Inserts an op before the next one. `dep` of the row is an index into the new program.
  uint32_t Add(const graph::OpRow& row);
  uint32_t Record(uint16_t stream);
  void Wait(uint16_t stream, uint32_t record);
  uint32_t AddCollective(const graph::OpRow& row, const graph::CollectiveShape& shape);

  // From now on, whatever waits for old op `record` waits for `instead`, an op of the new program.
  void Redirect(uint32_t record, uint32_t instead) { moved_[record] = instead; }

  // The program may use streams below this number.
  void AllowStreams(uint16_t count) { made_.stream_count = std::max(made_.stream_count, count); }

  // Call when all ops of the old program have been decided.
  [[nodiscard]] graph::Program Finish();

 private:
  const graph::Program& old_;
  graph::Program made_;
  std::vector<uint32_t> moved_;  // by old op: where it is now
  uint32_t next_ = 0;
  bool launch_kept_ = true;  // some op was kept of the launch that op `next_` may belong to
};

// The program without the marked ops; nothing may wait for one of them.
graph::Program Without(const graph::Program& program, const std::vector<bool>& dropped);

// The stream with the most kernels.
uint16_t ComputeStream(const graph::Program& program);

// By op: whether another op waits for it.
std::vector<bool> WaitedFor(const graph::Program& program);

}  // namespace prism::slicer
