#include "slicer/import/kineto/trace_keys.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <utility>

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

constexpr size_t kSlots = 512;

constexpr size_t SlotOf(std::string_view text) {
  return (text.size() * 31 + static_cast<unsigned char>(text.front()) * 7 +
          static_cast<unsigned char>(text.back()) * 13) %
         kSlots;
}

// Places in kKeys, counted from 1: of the first key of a slot, and of the next one after a key.
struct KeyTable {
  std::array<uint8_t, kSlots> first = {};
  std::array<uint8_t, std::size(kKeys) + 1> next = {};
};

constexpr KeyTable TableOfKeys() {
  KeyTable table;
  for (size_t key = 0; key < std::size(kKeys); ++key) {
    uint8_t& first = table.first[SlotOf(kKeys[key].first)];
    table.next[key + 1] = first;
    first = static_cast<uint8_t>(key + 1);
  }
  return table;
}

constexpr KeyTable kTable = TableOfKeys();

}  // namespace

TraceKey TraceKeyOf(std::string_view text) {
  if (text.empty()) {
    return TraceKey::kOther;
  }
  size_t key = kTable.first[SlotOf(text)];
  while (key != 0 && kKeys[key - 1].first != text) {
    key = kTable.next[key];
  }
  return key == 0 ? TraceKey::kOther : kKeys[key - 1].second;
}

}  // namespace prism::slicer
