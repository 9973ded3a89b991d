#include "slicer/import/kineto/trace_keys.h"

#include <array>
#include <cstddef>
#include <utility>
#include <vector>

namespace prism::slicer {
namespace {

// Some keys had other names in older releases of PyTorch.
constexpr std::pair<std::string_view, TraceKey> kKeys[] = {
    {"traceEvents", TraceKey::kEvents},
    {"distributedInfo", TraceKey::kDistributed},
    {"deviceProperties", TraceKey::kDevices},
    {"totalGlobalMem", TraceKey::kMemorySize},
    {"rank", TraceKey::kRank},
    {"world_size", TraceKey::kWorldSize},
    {"pg_config", TraceKey::kGroups},
    {"pg_name", TraceKey::kGroupName},
    {"pg_size", TraceKey::kGroupSize},
    {"group_size", TraceKey::kGroupSize},
    {"ranks", TraceKey::kRanks},
    {"ph", TraceKey::kPhase},
    {"cat", TraceKey::kCategory},
    {"name", TraceKey::kName},
    {"ts", TraceKey::kTime},
    {"dur", TraceKey::kDuration},
    {"pid", TraceKey::kProcess},
    {"tid", TraceKey::kThread},
    {"args", TraceKey::kArguments},
    {"stream", TraceKey::kStream},
    {"correlation", TraceKey::kCorrelation},
    {"device", TraceKey::kDevice},
    {"bytes", TraceKey::kBytes},
    {"Record function id", TraceKey::kFunction},
    {"Input Dims", TraceKey::kInputDims},
    {"Input dims", TraceKey::kInputDims},
    {"Input type", TraceKey::kInputTypes},
    {"Collective name", TraceKey::kCollective},
    {"dtype", TraceKey::kDataType},
    {"Process Group Name", TraceKey::kCollectiveGroup},
    {"Process Group Ranks", TraceKey::kCollectiveRanks},
    {"Group size", TraceKey::kCollectiveSize},
    {"Src Rank", TraceKey::kSource},
    {"Dst Rank", TraceKey::kDestination},
    {"In msg nelems", TraceKey::kInElements},
    {"Out msg nelems", TraceKey::kOutElements},
    {"In msg size", TraceKey::kInElements},
    {"Out msg size", TraceKey::kOutElements},
    {"Addr", TraceKey::kAddress},
    {"Bytes", TraceKey::kAllocation},
    {"Device Type", TraceKey::kDeviceType},
    {"Device Id", TraceKey::kDeviceId},
    {"Total Allocated", TraceKey::kAllocated},
    {"Total Reserved", TraceKey::kReserved},
};

constexpr size_t kLongest = 24;  // more than any of them has

using KeysOfLength = std::array<std::vector<std::pair<std::string_view, TraceKey>>, kLongest>;

KeysOfLength ByLength() {
  KeysOfLength keys;
  for (const auto& key : kKeys) {
    keys.at(key.first.size()).push_back(key);
  }
  return keys;
}

}  // namespace

TraceKey TraceKeyOf(std::string_view text) {
  static const KeysOfLength keys = ByLength();
  if (text.size() < kLongest) {
    for (const auto& [known, key] : keys[text.size()]) {
      if (known.front() == text.front() && known == text) {
        return key;
      }
    }
  }
  return TraceKey::kOther;
}

}  // namespace prism::slicer
