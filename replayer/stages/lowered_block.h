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

// A distinct collective on a group axis.
struct TransferItem {
  uint16_t axis = 0;
  graph::CollectiveShape shape;
  DurationNs fixed_ns = -1;

  bool operator==(const TransferItem&) const = default;
};

enum class StageOpKind : uint8_t { kWork, kRecord, kWait, kCollective, kPeerGroup, kHostSync };

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

// All blocks of a job; `tables` gets what they refer to. Fails on an op that a block may not hold.
Result<LoweredBlocks> LowerBlocks(const graph::JobProgram& job, LoweredTables* tables);

}  // namespace prism::replayer
