// Canonical ops (op_stream.h) and what their ids refer to.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graph/base/ids.h"
#include "graph/program/op.h"
#include "graph/program/signature.h"

namespace prism::slicer {

// One row of the columns of graph::Program; see there for the meaning of the fields by kind. Ids
// point into OpTables.
using CanonicalOp = graph::OpRow;

// A communicator as the process created it.
struct RecordedCommunicator {
  std::string name;
  int32_t size = 0;
  bool members_known = false;
  std::vector<Rank> members;       // by rank in the communicator; empty when not known
  uint64_t identity = 0;           // equal on all members, distinct per communicator; 0: not known
  uint32_t group_number = 0;       // of its group, in the order in which the process created them
  int64_t backward_sum_bytes = 0;  // see graph::FragmentCommunicator

  // Compares what matters to an op: a program may recreate its groups in each iteration.
  bool operator==(const RecordedCommunicator& other) const {
    return name == other.name && size == other.size && members_known == other.members_known &&
           members == other.members;
  }
};

// What the ids of this iteration's ops refer to.
struct OpTables {
  std::vector<std::string> strings = {""};
  std::vector<graph::KernelSignature> signatures;
  std::vector<graph::CollectiveShape> collectives;
  std::vector<graph::PeerGroup> peer_groups;
  std::vector<RecordedCommunicator> comm_slots;
  std::vector<Rank> peer_slots;
  uint16_t stream_count = 1;

  bool operator==(const OpTables&) const = default;
};

// Ops that one iteration may have and the next one not, although the rank does the same: allocating
// or releasing device memory, and ranges named by the program; `strings` has the names.
bool MayComeAndGo(graph::OpKind kind, uint32_t signature, const std::vector<std::string>& strings);

// Whether two ops do the same, by what their ids refer to: kernel signatures in everything that
// cost may depend on, collectives with their reduction and root, communicators by name and members,
// peers by global rank.
bool SameOp(const CanonicalOp& a,
            const OpTables& a_tables,
            const CanonicalOp& b,
            const OpTables& b_tables);

// Whether two ops that communicate do so alike, in any amounts.
bool SameButForBytes(const CanonicalOp& a,
                     const OpTables& a_tables,
                     const CanonicalOp& b,
                     const OpTables& b_tables);

// What ranks exchange for a log line: losses, norms, counts.
inline constexpr int64_t kLogBytes = int64_t{64} << 10U;

// What it reduces over ranks; 0 for anything else.
int64_t ReducedBytes(const CanonicalOp& op, const OpTables& tables);

// 1 for a matrix product, else 0.
int64_t MatrixProducts(const CanonicalOp& op, const OpTables& tables);

// In the words of graph/describe.h.
std::string DescribeOp(const CanonicalOp& op, const OpTables& tables);

}  // namespace prism::slicer
