// A training iteration in blocks: what every pipeline stage of a job does, independent of ranks and
// of any cluster. A job of 8,192 ranks with 40,000 ops per rank is a few dozen blocks and, for
// every stage, the order in which it calls them.
//
// A block is an ordinary Program (op.h), read with two changes:
//   - a communicator slot is a GroupAxis and a peer slot a PeerSlot, not a slot of a rank;
//   - `value` of an event record, wait or sync is 0 where the event lives inside the block (`dep`
//     as always), else 1 + k for event slot k of the stage: a record sets the slot, a wait means
//     the last record of the slot in the stage's program order (over at once where none came before
//     in this iteration).
// Streams are those of a stage (StageStream); each call of a block continues from where the stage's
// streams and host thread are.
//
// slicer/synthesize/synthesize.h makes a JobProgram from a JobSpec; replayer/stages/ evaluates it;
// slicer/synthesize/expand.h makes the Graph of all ranks from it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graph/job/job.h"
#include "graph/job/training_style.h"
#include "graph/program/op.h"
#include "graph/program/signature.h"

namespace prism::graph {

// The communicator of a rank along these dimensions of the layout. Two axes may have the same
// members and still be two communicators.
enum class GroupAxis : uint16_t {
  kTensor,            // tp
  kContext,           // cp
  kData,              // dp, cp not included
  kDataContext,       // dp and cp: gradients and shards of dense parameters
  kExpert,            // ep, inside dp
  kExpertData,        // dp without ep: gradients and shards of expert parameters
  kTensorExpert,      // tp and ep: tokens of experts where tp splits the sequence
  kShard,             // HSDP: the part of dp (and cp) that parameters are sharded over
  kReplicate,         // HSDP: the part that they are replicated over
  kPipeline,          // pp
  kPipelineForward,   // pp again, for activations, where a framework separates them
  kPipelineBackward,  // pp again, for their gradients
  kEmbedding,         // first and last stage
  kModel,             // tp and pp
  kWorld,
};

inline constexpr uint16_t kGroupAxisCount = 15;

// Name of the process group as frameworks call it: "tp", "cp", "dp", ...
const char* GroupAxisName(GroupAxis axis);

// Neighbours in the ring of pipeline stages; with two stages both are the same rank.
enum class PeerSlot : uint16_t { kPrevious, kNext };

// Streams of a stage: compute, one for each communicator, two for receives of pipeline messages
// where those must not queue after sends, and two for offloading, one per direction.
inline constexpr uint16_t kStageComputeStream = 0;
inline constexpr uint16_t kStageCopyInStream = 1;
inline constexpr uint16_t kStageReceiveForwardStream = 2 + kGroupAxisCount;
inline constexpr uint16_t kStageReceiveBackwardStream = 3 + kGroupAxisCount;
inline constexpr uint16_t kStageCopyOutStream = 4 + kGroupAxisCount;
inline constexpr uint16_t kStageStreamCount = 5 + kGroupAxisCount;

constexpr uint16_t StageStream(GroupAxis axis) {
  return static_cast<uint16_t>(2 + static_cast<uint16_t>(axis));
}

constexpr uint16_t SlotOf(GroupAxis axis) {
  return static_cast<uint16_t>(axis);
}

constexpr uint16_t SlotOf(PeerSlot peer) {
  return static_cast<uint16_t>(peer);
}

// Blocks that one pipeline stage calls in an iteration, in host issue order.
struct StageProgram {
  std::vector<uint32_t> calls;    // indices into JobProgram::blocks
  uint16_t event_slot_count = 0;  // events that outlive their block
  // Calls with which the rounds of the steady part begin, ascending: where it is worth looking for
  // repetitions. All stages run the backward passes of a micro-batch in the same round.
  std::vector<uint32_t> rounds;

  bool operator==(const StageProgram&) const = default;
};

struct JobProgram {
  JobSpec job;
  TrainingStyle style;
  std::vector<std::string> strings;         // strings[0] is ""
  std::vector<KernelSignature> signatures;  // distinct
  std::vector<Program> blocks;              // distinct; slot counts are 0, stream_count the stage's
  std::vector<StageProgram> stages;         // by pipeline stage
  std::vector<std::string> assumptions;     // what was assumed while building, one line each
};

}  // namespace prism::graph
