// The execution graph of a whole job: what every rank does in one iteration and who waits for whom.
//
// A graph holds a few dozen role programs and one table of ranks, never one per rank. A rank is a
// role plus the communicators and peers that the slots of its role's program refer to. One
// iteration is kept; replay repeats it. A graph is immutable once built and is valid only if
// validate.h accepts it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "graph/base/ids.h"
#include "graph/job/cluster.h"
#include "graph/job/job.h"
#include "graph/program/op.h"
#include "graph/program/signature.h"

namespace prism::graph {

// One class of device memory of a rank at its peak, e.g. "parameters". Bytes.
struct MemoryClass {
  std::string name;
  int64_t bytes = 0;
  Mark mark = Mark::kMeasured;

  bool operator==(const MemoryClass&) const = default;
};

// Device memory of one recorded rank, from the real caching allocator, or of a predicted one
// (replayer/memory/stage_memory.h), of which only the peaks are known. Bytes. `device_bytes` =
// peak_reserved + outside, where `outside` lists what is not in the allocator (context, NCCL) item
// by item.
struct MemoryProfile {
  int64_t peak_allocated = 0;
  int64_t peak_reserved = 0;
  int64_t steady_allocated = 0;      // at the start of a steady iteration
  std::vector<MemoryClass> at_peak;  // inside the allocator, sums to peak_allocated
  std::vector<MemoryClass> outside;  // context, nccl:<communicator>, ...
  std::string peak_op;               // framework op that allocated the block at the peak
  std::string peak_phase;            // marker path, e.g. "iteration/backward/layer 3"
  uint64_t layout_hash = 0;          // over the address offsets and sizes of every block event

  [[nodiscard]] int64_t outside_bytes() const;
  [[nodiscard]] int64_t device_bytes() const { return peak_reserved + outside_bytes(); }

  bool operator==(const MemoryProfile&) const = default;
};

// An equivalence class of ranks: one program up to renaming of communicators and peers.
struct Role {
  std::string name;     // "stage 3", "stage 0 last-dp"
  int32_t stage = 0;    // pipeline stage
  Rank representative;  // the rank that was recorded, if any (Graph::WasRecorded)
  Program program;
  MemoryProfile memory;

  bool operator==(const Role&) const = default;
};

// Where the numbers of a rank come from: of its role, its own recording, its own run; kApproximated
// (written `like`): of a role that recorded ranks beside it resemble without being equal.
enum class RankSource : uint8_t { kRole, kRecorded, kSandbox, kApproximated };

// Ranks → role, communicators and peers. Flat arrays; slots of rank r are at comm_ids[comm_begin[r]
// .. comm_begin[r + 1]).
struct RankTable {
  std::vector<uint32_t> role;        // index into roles, by rank
  std::vector<RankSource> source;    // by rank
  std::vector<uint32_t> comm_begin;  // world_size + 1 entries
  std::vector<uint32_t> comm_ids;    // CommId by slot
  std::vector<uint32_t> peer_begin;  // world_size + 1 entries
  std::vector<uint32_t> peer_ids;    // Rank by slot

  [[nodiscard]] uint32_t size() const { return static_cast<uint32_t>(role.size()); }
  [[nodiscard]] std::span<const uint32_t> comms(Rank rank) const;
  [[nodiscard]] std::span<const uint32_t> peers(Rank rank) const;

  bool operator==(const RankTable&) const = default;
};

// Membership of every communicator, flat: members of c at members[begin[c] .. begin[c + 1]),
// ascending global ranks; a member's index there is its rank in the communicator.
struct CommunicatorTable {
  std::vector<uint32_t> begin = {0};
  std::vector<uint32_t> members;
  std::vector<uint32_t> name;  // StringId by communicator: "tp", "dp", ...

  [[nodiscard]] uint32_t size() const { return static_cast<uint32_t>(name.size()); }
  [[nodiscard]] std::span<const uint32_t> members_of(CommId comm) const;

  bool operator==(const CommunicatorTable&) const = default;
};

// Something suspicious but usable. Counted, shown in the report, an error under --strict.
struct Warning {
  std::string code;  // stable, snake_case
  int64_t count = 0;
  std::string example;  // the first one met

  bool operator==(const Warning&) const = default;
};

struct Graph {
  JobSpec job;
  ClusterSpec cluster;
  std::vector<std::string> strings;  // strings[0] is ""
  std::vector<KernelSignature> signatures;
  std::vector<Role> roles;
  CommunicatorTable communicators;
  RankTable ranks;
  std::vector<Warning> warnings;         // of recording and stitching, ordered by code
  std::vector<std::string> assumptions;  // what was assumed while building, one line each
  std::vector<Rank> sandbox_ranks;       // ascending; as resolved when the graph was made

  [[nodiscard]] const std::string& string(StringId id) const { return strings[id.value()]; }
  [[nodiscard]] const Role& role_of(Rank rank) const { return roles[ranks.role[rank.value()]]; }
  // Whether a rank of the role was run; otherwise its program and memory are predicted.
  [[nodiscard]] bool WasRecorded(const Role& role) const;
  [[nodiscard]] int64_t OpsPerIteration() const;  // over all ranks

  bool operator==(const Graph&) const = default;
};

}  // namespace prism::graph
