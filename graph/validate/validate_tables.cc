// CheckTables (graph/validate/validate_internal.h): the first part of Validate. Columns have one
// length, and every id, slot, size and index that a file could get wrong is in range. The other
// parts index without checking, and do not run where this one finds a fault.
#include <algorithm>

#include <fmt/format.h>

#include "graph/describe.h"
#include "graph/validate/limits.h"
#include "graph/validate/validate_internal.h"

namespace prism::graph::internal {
namespace {

// One role's program.
class ProgramCheck {
 public:
  ProgramCheck(const Graph& graph, const Role& role, FaultList& faults)
      : graph_(graph), role_(role), program_(role.program), faults_(faults) {}

  void Run() {
    const size_t size = program_.kind.size();
    if (program_.flags.size() != size || program_.stream.size() != size ||
        program_.comm_slot.size() != size || program_.signature.size() != size ||
        program_.dep.size() != size || program_.value.size() != size) {
      faults_.Add(
          "column_length",
          fmt::format("role {}: the columns of the program have different lengths", role_.name));
      return;
    }
    CheckPeerGroups();
    CheckCollectiveShapes();
    for (uint32_t op = 0; op < size; ++op) {
      CheckOp(op);
    }
    CheckDurations();
  }

 private:
  // Runs after CheckOp, which has reported programs with negative values.
  void CheckDurations() {
    int64_t sum = 0;
    for (uint32_t op = 0; op < program_.size(); ++op) {
      const bool stated =
          program_.kind[op] == OpKind::kHostGap || (program_.flags[op] & kDurationFixed) != 0;
      const int64_t duration = stated ? std::max<int64_t>(program_.value[op], 0) : 0;
      if (duration > kMaxProgramNs - sum) {
        Fault("duration", op, "durations of the program add up to more than 11 days");
        return;
      }
      sum += duration;
    }
  }

  void Fault(const char* rule, uint32_t op, const std::string& what) {
    faults_.Add(rule,
                fmt::format("role {} op {} ({}): {}", role_.name, op,
                            DescribeOp(program_, op, graph_.strings, graph_.signatures), what));
  }

  void CheckPeerGroups() {
    for (size_t group = 0; group < program_.peer_groups.size(); ++group) {
      for (const PeerTransfer& transfer : program_.peer_groups[group].transfers) {
        if (transfer.comm_slot >= program_.comm_slot_count ||
            transfer.peer_slot >= program_.peer_slot_count || transfer.bytes < 0) {
          faults_.Add("id_range",
                      fmt::format("role {}: peer group {} has a slot or a size out of "
                                  "range (communicator slot {}, peer slot {}, {} bytes)",
                                  role_.name, group, transfer.comm_slot, transfer.peer_slot,
                                  transfer.bytes));
        }
      }
    }
  }

  void CheckCollectiveShapes() {
    for (size_t shape = 0; shape < program_.collectives.size(); ++shape) {
      const CollectiveShape& collective = program_.collectives[shape];
      if (collective.bytes < 0 || collective.root < -1) {
        faults_.Add("id_range", fmt::format("role {}: collective shape {} has {} bytes and root {}",
                                            role_.name, shape, collective.bytes, collective.root));
      }
    }
  }

  void CheckOp(uint32_t op) {
    const OpKind kind = program_.kind[op];
    if (static_cast<uint8_t>(kind) >= kOpKindCount) {
      Fault("id_range", op, "unknown op kind");
      return;
    }
    if (HasStream(kind) && program_.stream[op] >= program_.stream_count) {
      Fault("id_range", op,
            fmt::format("stream {} of {}", program_.stream[op], program_.stream_count));
    }
    if (kind == OpKind::kCollective && program_.comm_slot[op] >= program_.comm_slot_count) {
      Fault("id_range", op,
            fmt::format("communicator slot {} of {}", program_.comm_slot[op],
                        program_.comm_slot_count));
    }
    if (program_.value[op] < 0) {
      Fault("id_range", op, fmt::format("negative value {}", program_.value[op]));
    }
    CheckSignature(op);
    CheckDep(op);
  }

  void CheckSignature(uint32_t op) {
    size_t count = 0;
    switch (program_.kind[op]) {
      case OpKind::kKernel:
        count = graph_.signatures.size();
        break;
      case OpKind::kCollective:
        count = program_.collectives.size();
        break;
      case OpKind::kPeerGroup:
        count = program_.peer_groups.size();
        break;
      case OpKind::kMarker:
        count = graph_.strings.size();
        break;
      default:
        return;
    }
    if (program_.signature[op] >= count) {
      Fault("id_range", op, fmt::format("signature {} of {}", program_.signature[op], count));
    }
  }

  void CheckDep(uint32_t op) {
    const uint32_t dep = program_.dep[op];
    if (dep == kNoDep) {
      return;
    }
    const OpKind kind = program_.kind[op];
    if (kind != OpKind::kEventWait && kind != OpKind::kEventSync) {
      Fault("bad_dep", op, "has a dependency but waits for no event");
    } else if (dep >= op) {
      Fault("bad_dep", op, fmt::format("depends on op {}, which is not before it", dep));
    } else if (program_.kind[dep] != OpKind::kEventRecord) {
      Fault("bad_dep", op, fmt::format("depends on op {}, which records no event", dep));
    }
  }

  const Graph& graph_;
  const Role& role_;
  const Program& program_;
  FaultList& faults_;
};

// True when `begin` is an index of `count` lists into `length` entries.
bool IsListIndex(const std::vector<uint32_t>& begin, size_t count, size_t length) {
  return begin.size() == count + 1 && begin.front() == 0 && begin.back() == length &&
         std::ranges::is_sorted(begin);
}

void CheckNames(const Graph& graph, FaultList& faults) {
  if (graph.strings.empty() || !graph.strings.front().empty()) {
    faults.Add("id_range", "string 0 is not the empty string");
  }
  for (size_t i = 0; i < graph.signatures.size(); ++i) {
    const KernelSignature& signature = graph.signatures[i];
    if (signature.name.value() >= graph.strings.size() ||
        signature.framework_op.value() >= graph.strings.size()) {
      faults.Add("id_range", fmt::format("signature {} has a name out of range", i));
    }
  }
}

void CheckCommunicatorTable(const Graph& graph, FaultList& faults) {
  const CommunicatorTable& table = graph.communicators;
  if (!IsListIndex(table.begin, table.size(), table.members.size())) {
    faults.Add("column_length", "the index of the communicator table does not match its members");
    return;
  }
  for (uint32_t comm = 0; comm < table.size(); ++comm) {
    if (table.name[comm] >= graph.strings.size()) {
      faults.Add("id_range", fmt::format("communicator {} has a name out of range", comm));
    }
    const auto first = table.members.begin() + table.begin[comm];
    const auto last = table.members.begin() + table.begin[comm + 1];
    if (first == last || std::adjacent_find(first, last, std::greater_equal<>()) != last ||
        *(last - 1) >= graph.ranks.size()) {
      faults.Add("id_range", fmt::format("communicator {}: its members are not ascending ranks of "
                                         "the job",
                                         comm));
    }
  }
}

void CheckRank(const Graph& graph, uint32_t rank, FaultList& faults) {
  const RankTable& table = graph.ranks;
  if (table.role[rank] >= graph.roles.size()) {
    faults.Add("id_range",
               fmt::format("rank {}: role {} of {}", rank, table.role[rank], graph.roles.size()));
    return;
  }
  const Program& program = graph.roles[table.role[rank]].program;
  const uint32_t comms = table.comm_begin[rank + 1] - table.comm_begin[rank];
  const uint32_t peers = table.peer_begin[rank + 1] - table.peer_begin[rank];
  if (comms != program.comm_slot_count || peers != program.peer_slot_count) {
    faults.Add("slot_count",
               fmt::format("rank {}: {} communicators and {} peers, but its role {} has {} and {} "
                           "slots",
                           rank, comms, peers, graph.roles[table.role[rank]].name,
                           program.comm_slot_count, program.peer_slot_count));
  }
  for (uint32_t i = table.comm_begin[rank]; i < table.comm_begin[rank + 1]; ++i) {
    if (table.comm_ids[i] >= graph.communicators.size()) {
      faults.Add("id_range", fmt::format("rank {}: communicator {} of {}", rank, table.comm_ids[i],
                                         graph.communicators.size()));
    }
  }
  for (uint32_t i = table.peer_begin[rank]; i < table.peer_begin[rank + 1]; ++i) {
    if (table.peer_ids[i] >= table.size()) {
      faults.Add("id_range", fmt::format("rank {}: peer {} of {} ranks", rank, table.peer_ids[i],
                                         table.size()));
    }
  }
}

void CheckRankTable(const Graph& graph, FaultList& faults) {
  const RankTable& table = graph.ranks;
  const size_t ranks = table.role.size();
  if (ranks == 0) {
    faults.Add("column_length", "the graph has no ranks");
    return;
  }
  if (static_cast<int64_t>(ranks) != graph.job.parallel.world_size()) {
    faults.Add("column_length", fmt::format("the rank table has {} ranks, the layout {}", ranks,
                                            graph.job.parallel.world_size()));
  }
  if (table.source.size() != ranks ||
      !IsListIndex(table.comm_begin, ranks, table.comm_ids.size()) ||
      !IsListIndex(table.peer_begin, ranks, table.peer_ids.size())) {
    faults.Add("column_length", "the columns of the rank table have different lengths");
    return;
  }
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    CheckRank(graph, rank, faults);
  }
  for (const Role& role : graph.roles) {
    if (role.representative.value() >= ranks) {
      faults.Add("id_range", fmt::format("role {}: representative {} of {} ranks", role.name,
                                         role.representative.value(), ranks));
    }
  }
}

}  // namespace

void CheckTables(const Graph& graph, FaultList& faults) {
  CheckNames(graph, faults);
  if (!faults.empty()) {
    return;  // messages below read names
  }
  for (const Role& role : graph.roles) {
    ProgramCheck(graph, role, faults).Run();
  }
  CheckCommunicatorTable(graph, faults);
  CheckRankTable(graph, faults);
}

}  // namespace prism::graph::internal
