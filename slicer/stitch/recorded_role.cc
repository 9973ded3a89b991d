#include "slicer/stitch/recorded_role.h"

#include <fmt/format.h>

#include "graph/base/hash.h"
#include "graph/describe.h"
#include "graph/program_diff.h"

namespace prism::slicer {
namespace {

using graph::Fragment;

// What is reported of a rank's memory. Where blocks lay before the first iteration is no part of
// it: one rank broadcasts what others unpack.
bool SameMemory(const graph::MemoryProfile& a, const graph::MemoryProfile& b) {
  return a.peak_allocated == b.peak_allocated && a.peak_reserved == b.peak_reserved &&
         a.steady_allocated == b.steady_allocated && a.device_bytes() == b.device_bytes();
}

uint64_t CommunicationHash(const graph::Program& program) {
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
  const graph::ProgramDifference ops = graph::CompareOps({&a.program, &a.strings, &a.signatures},
                                                         {&b.program, &b.strings, &b.signatures});
  if (!ops.equal()) {
    const auto side = [](const std::string& op) {
      return op.empty() ? "no further op" : graph::WithoutTemplates(op);
    };
    return fmt::format("{} at op {}: {}; the role: {}", text, ops.first, side(ops.right),
                       side(ops.left));
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
