// A program written anew from another: ops are kept or dropped in order, others come in between,
// and what refers to an op follows it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "graph/op.h"

namespace prism::slicer {

class ProgramRewriter {
 public:
  // `program` outlives the rewriter.
  explicit ProgramRewriter(const graph::Program& program);

  // The next op of the program, as it is or left out. Each is decided once, in order. Nobody may
  // wait for a record that is left out.
  uint32_t Keep();
  void Drop();
  [[nodiscard]] uint32_t next() const { return next_; }  // op of the old program

  // Before it. `dep` of the row counts in the new program.
  uint32_t Add(const graph::OpRow& row);
  uint32_t Record(uint16_t stream);
  void Wait(uint16_t stream, uint32_t record);
  uint32_t AddCollective(const graph::OpRow& row, const graph::CollectiveShape& shape);

  // From now on, who waits for old op `record` waits for `instead`, an op of the new program.
  void Redirect(uint32_t record, uint32_t instead) { moved_[record] = instead; }

  // The program may use streams up to this number, that one not included.
  void AllowStreams(uint16_t count) { made_.stream_count = std::max(made_.stream_count, count); }

  // All ops of the old program have been decided.
  [[nodiscard]] graph::Program Finish();

 private:
  const graph::Program& old_;
  graph::Program made_;
  std::vector<uint32_t> moved_;  // by old op: where it is now
  uint32_t next_ = 0;
  bool launch_kept_ = true;  // some op of the launch that op `next_` may belong to
};

// The program without the ops that are marked; nobody may wait for one of them.
graph::Program Without(const graph::Program& program, const std::vector<bool>& dropped);

// The stream with most kernels.
uint16_t ComputeStream(const graph::Program& program);

// By op: whether another op waits for it.
std::vector<bool> WaitedFor(const graph::Program& program);

}  // namespace prism::slicer
