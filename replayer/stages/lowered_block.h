// A block of a JobProgram, prepared for evaluation: its ops as the streams see them, with the host
// cost in between, and its queries to the cost models in tables of distinct entries. Nothing here
// depends on a parameter, so one lowering serves any number of clusters and fits.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "graph/base/status.h"
#include "graph/base/time.h"
#include "graph/program/job_program.h"
#include "replayer/engine/role_plan.h"
#include "replayer/stages/stream_set.h"

namespace prism::replayer {

// Host work between two steps: number of ops by kind, and explicit host time.
struct HostSpan {
  std::array<uint32_t, graph::kOpKindCount> ops = {};
  DurationNs gap_ns = 0;

  bool operator==(const HostSpan&) const = default;
};

// Distinct spans in order of first use.
class SpanTable {
 public:
  static constexpr uint32_t kEmptySpan = 0;

  SpanTable() {
    Intern({});
    of_ops_.fill(kNone);
  }

  // The index of a span, appended if new.
  uint32_t Intern(const HostSpan& span);

  // The index of a span of one op of a kind; appended if new.
  uint32_t InternOp(graph::OpKind kind);

  // The index of the sum of two spans; appended if new.
  uint32_t InternSum(uint32_t first, uint32_t second);

  [[nodiscard]] const HostSpan& operator[](uint32_t span) const { return spans_[span]; }
  [[nodiscard]] auto begin() const { return spans_.begin(); }
  [[nodiscard]] auto end() const { return spans_.end(); }

 private:
  struct SpanHash {
    size_t operator()(const HostSpan& span) const;
  };

  std::array<uint32_t, graph::kOpKindCount> of_ops_ = {};  // by kind; kNone until requested
  std::vector<HostSpan> spans_;
  std::unordered_map<HostSpan, uint32_t, SpanHash> ids_;  // never iterated
};

// A distinct kernel, copy or memset.
struct WorkItem {
  graph::OpKind kind = graph::OpKind::kKernel;
  uint8_t direction = 0;     // of a copy, as graph::OpFlag
  uint32_t signature = 0;    // kKernel
  int64_t bytes = 0;         // copies and memsets
  DurationNs fixed_ns = -1;  // from the program; -1: ask the cost model

  bool operator==(const WorkItem&) const = default;

  [[nodiscard]] bool is_compute() const { return kind != graph::OpKind::kMemcpy || direction == 0; }
};

struct WorkItemHash {
  size_t operator()(const WorkItem& item) const;
};

// A distinct collective on a group axis.
struct TransferItem {
  uint16_t axis = 0;
  graph::CollectiveShape shape;
  DurationNs fixed_ns = -1;

  bool operator==(const TransferItem&) const = default;
};

enum class StageOpKind : uint8_t { kWork, kRecord, kWait, kCollective, kPeerGroup, kHostSync };

struct TransferItemHash {
  size_t operator()(const TransferItem& item) const;
};

// One op of a block; ops without a stream are in the spans.
struct StageOp {
  StageOpKind kind = StageOpKind::kWork;
  graph::OpKind sync = graph::OpKind::kDeviceSync;  // kHostSync
  uint16_t stream = 0;
  uint32_t index = kNone;  // kWork: work; kCollective: index into collectives; kPeerGroup: into
                           // peer_groups of the block's program
  uint32_t event = kNone;  // kRecord, kWait, kHostSync: event inside the block
  uint32_t slot = kNone;   // the same: event slot of the stage
  uint32_t span = 0;       // host cost since the previous op, including its own
  uint32_t times = 1;      // kWork: it is issued so often, each time at that host cost
};

// Calls of one NCCL group, in order; usually one.
struct CollectiveCalls {
  std::vector<uint32_t> transfers;  // TransferItem

  bool operator==(const CollectiveCalls&) const = default;
};

struct CollectiveCallsHash {
  size_t operator()(const CollectiveCalls& calls) const;
};

// A block, or a part of one. What cannot be folded (waits of the host, messages, collectives over
// several stages, events that outlive the block) is cut into parts of its own, so that the rest can
// be.
struct LoweredBlock {
  uint32_t program = 0;  // index into JobProgram::blocks
  std::vector<StageOp> ops;
  uint32_t rest_span = 0;         // host cost after the last op
  uint32_t event_count = 0;       // inside the block
  bool closed = true;             // only work, inner events and one-stage collectives
  bool blocking = false;          // only a peer group that compute waits for next
  std::vector<uint16_t> streams;  // with ops of the block, ascending
};

// Parts of the blocks of a job; those of block b are parts[begin[b] .. begin[b + 1]).
struct LoweredBlocks {
  std::vector<LoweredBlock> parts;
  std::vector<uint32_t> begin = {0};
};

// Everything that blocks refer to, distinct.
struct LoweredTables {
  SpanTable spans;
  std::vector<WorkItem> works;
  std::vector<TransferItem> transfers;
  std::vector<CollectiveCalls> collectives;
};

// Whether the members of a communicator along that axis belong to several pipeline stages.
bool SpansStages(graph::GroupAxis axis, const graph::ParallelSizes& sizes);

class BlockLowering {
 public:
  // `tables` outlives the lowering.
  BlockLowering(const graph::ParallelSizes& sizes, LoweredTables* tables)
      : sizes_(sizes), tables_(*tables) {}

  // All blocks. Fails on an op that a block may not hold.
  Result<LoweredBlocks> Lower(const graph::JobProgram& job);

 private:
  Result<LoweredBlock> LowerPart(const graph::Program& program, uint32_t begin, uint32_t end);
  [[nodiscard]] std::vector<uint32_t> CutsOf(const graph::Program& program) const;
  [[nodiscard]] bool IsOpen(const graph::Program& program, uint32_t op) const;
  bool AddAgain(uint32_t op, LoweredBlock* block);
  Status AddOp(uint32_t op, LoweredBlock* block);
  StageOp& Push(uint32_t op, StageOpKind kind, LoweredBlock* block);
  void AddCollective(uint32_t op, LoweredBlock* block);
  Status AddEvent(uint32_t op, StageOp* stage_op, LoweredBlock* block);
  uint32_t InternSpan();
  uint32_t InternKernel(uint32_t signature);
  uint32_t InternWork(const WorkItem& item);
  uint32_t InternTransfer(const TransferItem& item);
  uint32_t InternCalls(const CollectiveCalls& calls);
  uint32_t InternCall(uint32_t transfer);

  graph::ParallelSizes sizes_;
  const graph::Program* program_ = nullptr;  // being lowered
  HostSpan span_;                            // since the last step
  uint32_t span_size_ = 0;                   // its ops; more if made from something else
  graph::OpKind span_op_ = {};               // the latest of them
  std::vector<uint32_t> event_of_;           // by op of the block: event of its part
  StreamSet streams_ = 0;                    // of the part
  LoweredTables& tables_;
  std::vector<uint32_t> kernel_ids_;  // works that are kernels, by signature
  std::unordered_map<WorkItem, uint32_t, WorkItemHash> work_ids_;  // never iterated
  std::unordered_map<TransferItem, uint32_t, TransferItemHash> transfer_ids_;
  std::unordered_map<CollectiveCalls, uint32_t, CollectiveCallsHash> calls_ids_;
  std::vector<uint32_t> call_ids_;  // of single calls, by transfer
};

}  // namespace prism::replayer
