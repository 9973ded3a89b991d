// The keys of torch.profiler's JSON that are looked at. A large profile has some ten million keys:
// each is compared as text once.
#pragma once

#include <cstdint>
#include <string_view>

namespace prism::slicer {

enum class TraceKey : uint8_t {
  kNone,  // of a list, and of an object before its first key
  kOther,
  // Of the file and of its process groups.
  kEvents,
  kDistributed,
  kDevices,
  kMemorySize,
  kRank,
  kWorldSize,
  kGroups,
  kGroupName,
  kGroupSize,
  kRanks,
  // Of an event.
  kPhase,
  kCategory,
  kName,
  kTime,
  kDuration,
  kProcess,
  kThread,
  kArguments,
  // Of its arguments.
  kStream,
  kCorrelation,
  kDevice,
  kBytes,
  kFunction,
  kInputDims,
  kInputTypes,
  kCollective,
  kDataType,
  kCollectiveGroup,
  kCollectiveRanks,
  kCollectiveSize,
  kSource,
  kDestination,
  kInElements,
  kOutElements,
  kAddress,
  kAllocation,
  kDeviceType,
  kDeviceId,
  kAllocated,
  kReserved,
};

TraceKey TraceKeyOf(std::string_view text);

}  // namespace prism::slicer
