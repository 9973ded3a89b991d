// Whether the recorded ranks of a job fit together from their first group to their exit, and if not
// the first thing that is wrong, as a person needs it: one sentence in the framework's words, then
// both lines, who waits for whom.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "graph/base/enum_names.h"
#include "graph/base/ids.h"
#include "slicer/check/calls.h"

namespace prism::slicer {

enum class FaultKind : uint8_t {
  kMissingCall,
  kLeftEarly,
  kOrder,
  kSize,
  kType,
  kRoot,
  kGroup,
  kCycle,
  kTimeout,
  kOverlap,
};

inline constexpr EnumNames<FaultKind, 10> kFaultKindNames = {
    {{FaultKind::kMissingCall, "missing_call"},
     {FaultKind::kLeftEarly, "left_early"},
     {FaultKind::kOrder, "order"},
     {FaultKind::kSize, "size"},
     {FaultKind::kType, "type"},
     {FaultKind::kRoot, "root"},
     {FaultKind::kGroup, "group"},
     {FaultKind::kCycle, "cycle"},
     {FaultKind::kTimeout, "timeout"},
     {FaultKind::kOverlap, "overlap"}}};

struct FaultCall {
  Rank rank;
  std::string call;   // "all_reduce of 1 float32"
  std::string group;  // "the default group"
  SourceLine source;
};

struct CheckFault {
  FaultKind kind = FaultKind::kOrder;
  std::string sentence = {};
  std::vector<Rank> ranks = {};    // ascending; that are involved
  std::vector<Rank> waiting = {};  // ascending; that go on no more
  std::vector<FaultCall> calls = {};
  std::vector<std::string> notes = {};  // what else helps, a sentence each
};

struct CheckResult {
  // The first contradiction, or else a rank that fails; a wait that is too long; buffers that
  // overlap.
  std::vector<CheckFault> faults;
  std::vector<std::string> warnings;
};

// `ranks`: by rank.
CheckResult CheckCalls(std::span<const RankCalls> ranks);

}  // namespace prism::slicer
