// The ops of a rank's program and their columns.
//
// An op is one entry of what a rank's host thread issued in one iteration: a kernel launch, a copy,
// a collective, a wait. The host thread issues ops in order; each op with a stream then runs when
// its stream, and whatever the stream waits for, allows. Ops are stored as a structure of arrays: a
// program has tens of thousands of ops, a job has a few dozen programs.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/base/data_type.h"
#include "graph/base/ids.h"
#include "graph/base/time.h"
#include "graph/program/column.h"

namespace prism::graph {

// What an op is. The numbers are part of the file format: append, never renumber.
enum class OpKind : uint8_t {
  kKernel = 0,       // signature: kernel signature
  kMemcpy = 1,       // value: bytes; flags: direction (a blocking copy is followed by kStreamSync)
  kMemset = 2,       // value: bytes
  kHostGap = 3,      // value: nanoseconds the host thread spends outside the device API (a sleep)
  kEventRecord = 4,  // on stream
  kEventWait = 5,    // stream waits for the event recorded by op `dep`
  kEventSync = 6,    // the host waits for the event recorded by op `dep`
  kStreamSync = 7,   // the host waits for everything issued on stream
  kDeviceSync = 8,   // the host waits for everything issued
  kCollective = 9,   // signature: index into Program::collectives; slot: communicator slot
  kPeerGroup = 10,   // signature: index into Program::peer_groups (sends and receives as one)
  kSegmentAlloc = 11,  // value: bytes taken from the device (cudaMalloc, driver map)
  kSegmentFree = 12,   // value: bytes given back
  kMarker = 13,        // signature: Graph::strings id; flags: kMarkerBegin or kMarkerEnd
};

inline constexpr uint8_t kOpKindCount = 14;

// Bits of Program::flags.
enum OpFlag : uint8_t {
  kHostToDevice = 1U << 1U,  // direction of a copy; neither bit: device to device
  kDeviceToHost = 1U << 2U,
  kMarkerBegin = 1U << 3U,
  kMarkerEnd = 1U << 4U,
  kGroupedWithNext = 1U << 5U,  // with the next collective of its stream: one NCCL group
  kDurationFixed = 1U << 6U,    // value holds a duration in ns that cost models must not change
  // Issued by the same host call as the op before (a graph launch): no host cost.
  kLaunchedWithPrevious = 1U << 7U,
};

inline constexpr uint32_t kNoDep = 0xFFFFFFFFU;
inline constexpr uint16_t kNoSlot = 0xFFFFU;

enum class CollectiveKind : uint8_t {
  kAllReduce,
  kAllGather,
  kReduceScatter,
  kBroadcast,
  kReduce,
  kAllToAll,
  kGather,
  kScatter,
};

const char* CollectiveKindName(CollectiveKind kind);

enum class ReduceOp : uint8_t { kNone, kSum, kProd, kMax, kMin, kAvg };

// True for kinds that name a stream: those that run on one, and kStreamSync, which waits for one.
bool HasStream(OpKind kind);

// What one collective call moves. `bytes` is the size of the larger of its two buffers on one rank,
// as nccl-tests counts it: the whole vector of an all_reduce or broadcast, the gathered side of
// all_gather, the scattered side of reduce_scatter, the send buffer of all_to_all.
struct CollectiveShape {
  CollectiveKind kind = CollectiveKind::kAllReduce;
  DataType dtype = DataType::kUnknown;
  ReduceOp reduce = ReduceOp::kNone;
  int32_t root = -1;  // rank in the communicator, -1 where there is none
  int64_t bytes = 0;

  bool operator==(const CollectiveShape&) const = default;
};

// One send or receive of a peer group.
struct PeerTransfer {
  bool is_send = false;
  uint16_t comm_slot = kNoSlot;  // communicator slot of the rank
  uint16_t peer_slot = kNoSlot;  // peer slot of the rank; the rank table names the peer
  int64_t bytes = 0;

  bool operator==(const PeerTransfer&) const = default;
};

// All sends and receives on one stream between one ncclGroupStart and its ncclGroupEnd.
struct PeerGroup {
  std::vector<PeerTransfer> transfers;

  bool operator==(const PeerGroup&) const = default;
};

// One row of the columns of Program; what is not given stays at the column's "none".
struct OpRow {
  OpKind kind = OpKind::kKernel;
  uint8_t flags = 0;
  uint16_t stream = 0;
  uint16_t comm_slot = kNoSlot;
  uint32_t signature = 0;
  uint32_t dep = kNoDep;
  int64_t value = 0;

  bool operator==(const OpRow&) const = default;
};

// The ops that a rank issues in one iteration, in host issue order. All columns have one entry per
// op. Immutable after building. `dep` points backwards inside the iteration; an event recorded in
// an earlier iteration counts as already complete (kNoDep).
struct Program {
  std::vector<OpKind> kind;
  std::vector<uint8_t> flags;    // OpFlag bits
  std::vector<uint16_t> stream;  // dense per rank; 0: the default one, and for kinds without one
  SparseColumn<uint16_t, kNoSlot> comm_slot;  // kCollective only, else kNoSlot
  std::vector<uint32_t> signature;            // meaning by kind, see OpKind
  SparseColumn<uint32_t, kNoDep> dep;         // index of the kEventRecord op, else kNoDep
  NumberColumn value;                         // meaning by kind, see OpKind
  std::vector<CollectiveShape> collectives;   // distinct shapes, in order of first use
  std::vector<PeerGroup> peer_groups;         // distinct groups, in order of first use
  uint16_t stream_count = 1;
  uint16_t comm_slot_count = 0;
  uint16_t peer_slot_count = 0;

  [[nodiscard]] uint32_t size() const { return static_cast<uint32_t>(kind.size()); }

  // Adds an op while the program is built; returns its index.
  uint32_t Append(const OpRow& row);

  // Adds `times` equal ops.
  void AppendTimes(uint32_t times, const OpRow& row);

  // Frees the room that the columns reserve for more ops.
  void ShrinkToFit();

  bool operator==(const Program&) const = default;
};

}  // namespace prism::graph
