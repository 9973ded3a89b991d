// The evaluation of a JobProgram, laid out: for every pipeline stage the instructions of an
// iteration in host issue order, and which of them meet. Independent of parameters:
// replayer/stages/ stage_costs.h fills in durations.
//
// Calls of closed blocks (lowered_block.h) are folded: a run of them is one segment, which advances
// the host and the tails of its streams by a fixed max-plus matrix (block_fold.h). It ends where a
// round does. Everything else is one instruction per op. Streams that meet other stages have their
// own lane, because they are blocked while the rest advances, unless compute waits for them at
// once; all others are evaluated in issue order, as one lane.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "graph/base/status.h"
#include "replayer/stages/block_charges.h"
#include "replayer/stages/lowered_block.h"

namespace prism::replayer {

enum class InstructionKind : uint8_t {
  kSegment,
  kWork,
  kRecord,
  kWait,
  kCollective,  // of one stage
  kMeeting,     // collective over stages
  kPeerGroup,
  kHostSync,
};

struct Instruction {
  InstructionKind kind = InstructionKind::kWork;
  graph::OpKind sync = graph::OpKind::kDeviceSync;
  uint16_t stream = 0;
  uint32_t index = kNone;   // segment, work, CollectiveCalls, meeting or peer group
  uint32_t event = kNone;   // kRecord, kWait, kHostSync
  uint32_t charge = kNone;  // kWait, kHostSync: overlap charge of the stage
  uint32_t span = 0;        // host cost since the previous instruction, without a segment's own
  uint32_t epoch = 0;       // number of host waits before it
  uint32_t mark = kNone;    // ComputeMark taken here (kSegment: the first of its block)
};

// Streams that the blocks of a segment may touch; blocks with more are not folded.
inline constexpr size_t kMaxFoldedStreams = 6;

// A run of calls of closed blocks.
struct Segment {
  std::vector<uint32_t> blocks;
  uint32_t exports = 0;  // marks of collectives that no wait in it settles; only with one block
};

// How much compute the kernel streams of the stage had done when a collective was issued.
// Collectives inside a segment: `op` of its block.
struct ComputeMark {
  uint32_t op = kNone;
};

// A collective that a wait pays for (replayer/engine/role_plan.h): min(transfer, compute since its
// mark).
struct StageChargeSource {
  uint32_t instruction = 0;  // that pays
  uint32_t transfer = 0;
  uint32_t mark = 0;
  uint16_t collective_stream = 0;
  uint16_t waiting_stream = 0;
  bool any_stream = false;  // the host waits: compute of all streams except the collective's
};

// One send with its receive.
struct PeerMessage {
  uint32_t channel = 0;
  int64_t bytes = 0;
  std::array<uint32_t, 2> instructions = {};  // that post it: of the receiver, of the sender
};

// All messages along an axis from one stage to another.
struct PeerChannel {
  uint16_t axis = 0;
  int32_t from = 0;  // stages
  int32_t to = 0;
};

struct StagePost {
  uint32_t message = 0;
  bool is_send = false;
};

struct StagePeerGroup {
  std::vector<StagePost> posts;
};

// A collective whose members are in several stages.
struct StageMeeting {
  uint32_t members = 0;                                 // stages
  std::vector<std::pair<int32_t, uint32_t>> transfers;  // (stage, TransferItem)
};

struct StageLanes {
  std::vector<Instruction> instructions;     // host issue order
  std::vector<std::vector<uint32_t>> lanes;  // their indices; 0: everything without its own lane
  std::vector<uint32_t> syncs;               // the host's waits, the same
  std::vector<uint32_t> lane_of_stream;
  std::vector<ComputeMark> marks;
  std::vector<StageChargeSource> charge_sources;  // by instruction
  std::vector<uint32_t> rounds;  // instructions with which they begin (StageProgram::rounds)
  uint32_t charge_count = 0;
  uint32_t event_count = 0;
  uint32_t rest_span = 0;     // host cost after the last instruction
  uint32_t first_span = 0;    // host cost up to and including the first op on a stream
  uint16_t first_stream = 0;  // its stream
};

struct StagePlan {
  std::vector<LoweredBlock> blocks;      // and parts of blocks
  std::vector<uint32_t> parts;           // those of block b are blocks[parts[b] .. parts[b + 1])
  std::vector<BlockCharges> charges;     // by block; empty for those that are not closed
  std::vector<uint16_t> kernel_streams;  // ascending
  LoweredTables tables;
  std::vector<Segment> segments;
  std::vector<PeerChannel> channels;
  std::vector<PeerMessage> messages;
  std::vector<StagePeerGroup> peer_groups;
  std::vector<StageMeeting> meetings;
  std::vector<StageLanes> stages;
};

// `fold` false: every op is a separate instruction. Fails if sends and receives, or collectives, of
// the stages do not match. `job` outlives the plan.
Result<StagePlan> MakeStagePlan(const graph::JobProgram& job, bool fold);

}  // namespace prism::replayer
