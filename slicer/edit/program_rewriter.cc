#include "slicer/edit/program_rewriter.h"

#include <utility>

#include "graph/base/check.h"
#include "graph/base/intern.h"
#include "graph/describe.h"

namespace prism::slicer {

using graph::OpKind;

uint16_t ComputeStream(const graph::Program& program) {
  std::vector<int64_t> kernels(std::max<size_t>(program.stream_count, 1));
  for (uint32_t op = 0; op < program.size(); ++op) {
    kernels[program.stream[op]] += program.kind[op] == OpKind::kKernel ? 1 : 0;
  }
  return static_cast<uint16_t>(std::ranges::max_element(kernels) - kernels.begin());
}

std::vector<bool> WaitedFor(const graph::Program& program) {
  std::vector<bool> waited(program.size());
  for (uint32_t op = 0; op < program.size(); ++op) {
    if (program.dep[op] != graph::kNoDep) {
      waited[program.dep[op]] = true;
    }
  }
  return waited;
}

ProgramRewriter::ProgramRewriter(const graph::Program& program)
    : old_(program), moved_(program.size(), graph::kNoDep) {
  made_.collectives = program.collectives;
  made_.peer_groups = program.peer_groups;
  made_.stream_count = program.stream_count;
  made_.comm_slot_count = program.comm_slot_count;
  made_.peer_slot_count = program.peer_slot_count;
}

uint32_t ProgramRewriter::Keep() {
  graph::OpRow row = graph::RowOf(old_, next_);
  const bool launched = (row.flags & graph::kLaunchedWithPrevious) != 0;
  if (launched && !launch_kept_) {
    // An op that was launched with dropped ops becomes a separate launch.
    row.flags &= static_cast<uint8_t>(~graph::kLaunchedWithPrevious);
  }
  launch_kept_ = true;
  if (row.dep != graph::kNoDep) {
    row.dep = moved_[row.dep];
    PRISM_CHECK(row.dep != graph::kNoDep);
  }
  moved_[next_] = made_.Append(row);
  return moved_[next_++];
}

void ProgramRewriter::Drop() {
  if ((old_.flags[next_] & graph::kLaunchedWithPrevious) == 0) {
    launch_kept_ = false;
  }
  ++next_;
}

uint32_t ProgramRewriter::Add(const graph::OpRow& row) {
  return made_.Append(row);
}

uint32_t ProgramRewriter::Record(uint16_t stream) {
  return Add({.kind = OpKind::kEventRecord, .stream = stream});
}

void ProgramRewriter::Wait(uint16_t stream, uint32_t record) {
  Add({.kind = OpKind::kEventWait, .stream = stream, .dep = record});
}

uint32_t ProgramRewriter::AddCollective(const graph::OpRow& row,
                                        const graph::CollectiveShape& shape) {
  graph::OpRow collective = row;
  collective.signature = InternValue(made_.collectives, shape);
  return Add(collective);
}

graph::Program ProgramRewriter::Finish() {
  PRISM_CHECK(next_ == old_.size());
  for (uint32_t op = 0; op < made_.size(); ++op) {
    // The group of a dropped collective ends earlier.
    if ((made_.flags[op] & graph::kGroupedWithNext) != 0 &&
        (op + 1 == made_.size() || made_.kind[op + 1] != OpKind::kCollective)) {
      made_.flags[op] &= static_cast<uint8_t>(~graph::kGroupedWithNext);
    }
  }
  made_.ShrinkToFit();
  return std::move(made_);
}

graph::Program Without(const graph::Program& program, const std::vector<bool>& dropped) {
  ProgramRewriter rewriter(program);
  while (rewriter.next() < program.size()) {
    if (dropped[rewriter.next()]) {
      rewriter.Drop();
    } else {
      rewriter.Keep();
    }
  }
  return rewriter.Finish();
}

}  // namespace prism::slicer
