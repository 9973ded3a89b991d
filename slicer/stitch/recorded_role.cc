#include "slicer/stitch/recorded_role.h"

#include <fmt/format.h>

#include "graph/base/hash.h"
#include "graph/describe.h"
#include "graph/diff/program_diff.h"

namespace prism::slicer {
namespace {

using graph::Fragment;
using graph::Program;

// Compares what is reported of a rank's memory. Where blocks were before the first iteration is not
// compared: one rank broadcasts what others unpack.
bool SameMemory(const graph::MemoryProfile& a, const graph::MemoryProfile& b) {
  return a.peak_allocated == b.peak_allocated && a.peak_reserved == b.peak_reserved &&
         a.steady_allocated == b.steady_allocated && a.device_bytes() == b.device_bytes();
}

uint64_t CommunicationHash(const Program& program) {
  Hasher hasher;
  for (uint32_t op = 0; op < program.size(); ++op) {
    if (program.kind[op] == graph::OpKind::kCollective) {
      const graph::CollectiveShape& shape = program.collectives[program.signature[op]];
      hasher.Add(program.comm_slot[op]);
      hasher.Add(static_cast<uint8_t>(shape.kind));
      hasher.Add(static_cast<uint8_t>(shape.dtype));
      hasher.Add(static_cast<uint8_t>(shape.reduce));
      hasher.Add(shape.root);
      hasher.Add(shape.bytes);
    } else if (program.kind[op] == graph::OpKind::kPeerGroup) {
      for (const auto& transfer : program.peer_groups[program.signature[op]].transfers) {
        hasher.Add(transfer.is_send);
        hasher.Add(transfer.comm_slot);
        hasher.Add(transfer.peer_slot);
        hasher.Add(transfer.bytes);
      }
    }
  }
  return hasher.Digest();
}

// A program without its ranges, and the original index of each op.
struct Ops {
  Program program;
  std::vector<uint32_t> index;
};

Ops WithoutRanges(const Program& program) {
  Ops ops;
  ops.program.collectives = program.collectives;
  ops.program.peer_groups = program.peer_groups;
  std::vector<uint32_t> place;
  for (uint32_t op = 0; op < program.size(); ++op) {
    place.push_back(static_cast<uint32_t>(ops.index.size()));
    if (program.kind[op] != graph::OpKind::kMarker) {
      graph::OpRow row = graph::RowOf(program, op);
      row.dep = row.dep == graph::kNoDep ? row.dep : place[row.dep];
      ops.program.Append(row);
      ops.index.push_back(op);
    }
  }
  return ops;
}

// What a rank does at one of these ops.
std::string Describe(const Fragment& fragment, const Ops& ops, int64_t at) {
  const auto place = static_cast<size_t>(at);
  return place >= ops.index.size()
             ? "no further op"
             : graph::WithoutTemplates(graph::DescribeOp(fragment.program, ops.index[place],
                                                         fragment.strings, fragment.signatures));
}

}  // namespace

Result<RecordedRole> DescribeRecorded(const graph::RankGrid& grid, const Fragment& fragment) {
  RecordedRole role;
  role.fragment = &fragment;
  PRISM_ASSIGN_OR_RETURN(role.patterns, PatternsOf(grid, fragment));
  role.structural_hash = graph::StructuralHash(fragment);
  role.communication_hash = CommunicationHash(fragment.program);
  return role;
}

Likeness Compare(const RecordedRole& a, const RecordedRole& b) {
  if (a.communication_hash != b.communication_hash || a.patterns != b.patterns) {
    return Likeness::kDifferent;
  }
  const bool same =
      a.structural_hash == b.structural_hash && SameMemory(a.fragment->memory, b.fragment->memory);
  return same ? Likeness::kSame : Likeness::kSameCommunication;
}

std::string DescribeDeparture(const RecordedRole& role, const RecordedRole& other) {
  const Fragment& a = *role.fragment;
  const Fragment& b = *other.fragment;
  std::string text =
      fmt::format("rank {} departs from {} (rank {})", b.rank.value(), role.name, a.rank.value());
  const Ops left = WithoutRanges(a.program);
  const Ops right = WithoutRanges(b.program);
  const graph::ProgramDifference difference = graph::CompareOps(
      {&left.program, &a.strings, &a.signatures}, {&right.program, &b.strings, &b.signatures});
  if (!difference.equal()) {
    const auto first = static_cast<size_t>(difference.first);
    return fmt::format("{} at op {}: {}; the role: {}", text,
                       first < right.index.size() ? right.index[first] : b.program.size(),
                       Describe(b, right, difference.first), Describe(a, left, difference.first));
  }
  if (role.patterns != other.patterns) {
    return text + " in the members of a communicator or in a peer";
  }
  if (!SameMemory(a.memory, b.memory)) {
    return fmt::format(
        "{} in memory: peak allocated {} bytes, reserved {}, {} at the begin of an iteration, {} "
        "on "
        "the device; the role: {}, {}, {}, {}",
        text, b.memory.peak_allocated, b.memory.peak_reserved, b.memory.steady_allocated,
        b.memory.device_bytes(), a.memory.peak_allocated, a.memory.peak_reserved,
        a.memory.steady_allocated, a.memory.device_bytes());
  }
  return text + " in its kernel signatures or names";
}

}  // namespace prism::slicer
