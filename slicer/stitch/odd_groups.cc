#include "slicer/stitch/odd_groups.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "graph/base/hash.h"
#include "graph/base/units.h"
#include "graph/program/op.h"

namespace prism::slicer {
namespace {

using graph::GridGroup;

constexpr int64_t kTellingBytes = 1024;

// The collectives of an iteration on one communicator slot.
struct SlotTraffic {
  Hasher sequence;
  int64_t calls = 0;
  int64_t bytes = 0;
  uint32_t first_op = 0;
};

// One role's use of a sequence of collectives.
struct Use {
  size_t role = 0;
  size_t slot = 0;
  int64_t calls = 0;
  int64_t bytes = 0;
  graph::CollectiveKind kind = graph::CollectiveKind::kAllReduce;  // of the first
};

std::vector<SlotTraffic> TrafficOf(const graph::Fragment& fragment) {
  std::vector<SlotTraffic> slots(fragment.comm_slots.size());
  const graph::Program& program = fragment.program;
  for (uint32_t op = 0; op < program.size(); ++op) {
    if (program.kind[op] != graph::OpKind::kCollective) {
      continue;
    }
    const graph::CollectiveShape& shape = program.collectives[program.signature[op]];
    SlotTraffic& slot = slots[program.comm_slot[op]];
    slot.sequence.Add(static_cast<uint8_t>(shape.kind));
    slot.sequence.Add(static_cast<uint8_t>(shape.dtype));
    slot.sequence.Add(static_cast<uint8_t>(shape.reduce));
    slot.sequence.Add(shape.bytes);
    slot.first_op = slot.calls == 0 ? op : slot.first_op;
    ++slot.calls;
    slot.bytes += shape.bytes;
  }
  return slots;
}

// By sequence: who does it.
std::map<uint64_t, std::vector<Use>> UsesOf(const std::vector<RecordedRole>& roles) {
  std::map<uint64_t, std::vector<Use>> uses;
  for (size_t role = 0; role < roles.size(); ++role) {
    const graph::Program& program = roles[role].fragment->program;
    const std::vector<SlotTraffic> slots = TrafficOf(*roles[role].fragment);
    for (size_t slot = 0; slot < slots.size(); ++slot) {
      if (slots[slot].bytes > kTellingBytes) {
        const uint32_t shape = program.signature[slots[slot].first_op];
        uses[slots[slot].sequence.Digest()].push_back(
            {role, slot, slots[slot].calls, slots[slot].bytes, program.collectives[shape].kind});
      }
    }
  }
  return uses;
}

const GridGroup& FamilyOf(const std::vector<RecordedRole>& roles, const Use& use) {
  return roles[use.role].patterns.communicators[use.slot].group;
}

std::string DescribeSide(const RecordedRole& role, size_t slot) {
  const std::vector<Rank>& members = role.fragment->comm_slots[slot].members;
  return fmt::format("{} (rank {}) over the {} ranks {} to {}", role.name,
                     role.fragment->rank.value(), members.size(), members.front().value(),
                     members.back().value());
}

}  // namespace

std::vector<graph::Warning> FindOddGroups(const std::vector<RecordedRole>& roles,
                                          const std::vector<int64_t>& ranks_of_role) {
  std::vector<graph::Warning> odd;
  for (const auto& [sequence, uses] : UsesOf(roles)) {
    const auto has = [&, &uses = uses](size_t role, const GridGroup& family) {
      return std::ranges::any_of(
          uses, [&](const Use& use) { return use.role == role && FamilyOf(roles, use) == family; });
    };
    // The family that most ranks use for it; on ties the first.
    const Use* usual = nullptr;
    int64_t most = 0;
    for (const Use& candidate : uses) {
      int64_t ranks = 0;
      for (size_t role = 0; role < roles.size(); ++role) {
        ranks += has(role, FamilyOf(roles, candidate)) ? ranks_of_role[role] : 0;
      }
      if (ranks > most) {
        most = ranks;
        usual = &candidate;
      }
    }
    for (const Use& use : uses) {
      if (has(use.role, FamilyOf(roles, *usual)) || has(usual->role, FamilyOf(roles, use))) {
        continue;
      }
      odd.push_back({"odd_group", 1,
                     fmt::format("{} × {}, {} in all: {}, but {}", use.calls,
                                 graph::CollectiveKindName(use.kind), FormatBytes(use.bytes),
                                 DescribeSide(roles[use.role], use.slot),
                                 DescribeSide(roles[usual->role], usual->slot))});
    }
  }
  return odd;
}

}  // namespace prism::slicer
