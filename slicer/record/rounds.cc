#include "slicer/record/rounds.h"

#include <algorithm>
#include <charconv>
#include <string_view>
#include <utility>

#include "slicer/record/op_stream.h"

namespace prism::slicer {

namespace {

using channel::RecordKind;
using graph::OpKind;

constexpr size_t kMostDigits = 9;

// The name without the number at its end.
std::string_view Stem(std::string_view name) {
  const size_t last = name.find_last_not_of("0123456789");
  const size_t digits = name.size() - (last == std::string_view::npos ? 0 : last + 1);
  return name.substr(0, name.size() - std::min(digits, kMostDigits));
}

int64_t NumberBehind(std::string_view stem, std::string_view name) {
  int64_t number = 0;
  std::from_chars(name.data() + stem.size(), name.data() + name.size(), number);
  return number;
}

bool HappensOnce(RecordKind kind) {
  switch (kind) {
    case RecordKind::kSegmentAlloc:
    case RecordKind::kSegmentFree:
    case RecordKind::kOutsideAlloc:
    case RecordKind::kOutOfMemory:
    case RecordKind::kCommInit:
    case RecordKind::kCommName:
    case RecordKind::kCommDestroy:
    case RecordKind::kValue:
    case RecordKind::kGuess:
    case RecordKind::kCounter:
      return true;
    default:
      return false;
  }
}

}  // namespace

std::string LaterName(const std::string& before, const std::string& last, int32_t later) {
  if (before == last) {
    return last;
  }
  const std::string_view stem = Stem(last);
  if (Stem(before) != stem) {
    return "";
  }
  const int64_t number = NumberBehind(stem, last);
  return std::string(stem) + std::to_string(number + later * (number - NumberBehind(stem, before)));
}

Result<std::span<const PlacedOp>> OpStream::Repeat(std::span<const CanonicalOp> before,
                                                   std::span<const CanonicalOp> last,
                                                   int32_t times) {
  completed_.clear();
  launch_flags_ = 0;
  const auto length = static_cast<uint32_t>(last.size());
  const uint32_t end = next_index_;
  for (int32_t round = 1; round <= times; ++round) {
    for (size_t i = 0; i < last.size(); ++i) {
      CanonicalOp op = last[i];
      if (op.dep != graph::kNoDep) {
        op.dep += static_cast<uint32_t>(round) * length;
      }
      if (op.kind == OpKind::kMarker) {
        op.signature = StringOf(
            LaterName(tables_.strings[before[i].signature], tables_.strings[op.signature], round));
      }
      PRISM_RETURN_IF_ERROR(AddOp(op));
    }
  }
  // The events of the two rounds are now those of the latest two.
  for (auto& [event, place] : events_) {
    if (place.iteration == iteration_ && place.index + 2 * length >= end) {
      place.index += next_index_ - end;
    }
  }
  return std::span<const PlacedOp>(completed_);
}

void Rounds::See(const channel::Record& record) {
  if (!current_.has_begun) {
    return;
  }
  if (record.kind == RecordKind::kBlockAlloc) {
    current_.blocks.push_back(record.segment.bytes);
  } else if (HappensOnce(record.kind)) {
    current_.repeats = false;
  } else if (record.kind != RecordKind::kBlockFree && record.kind != RecordKind::kDefine) {
    current_.counted.push_back(record);
  }
}

bool Rounds::End(const Iteration& iteration,
                 const std::vector<std::string>& strings,
                 int64_t allocated) {
  current_.end = iteration.ops.size();
  current_.allocated = allocated;
  std::ranges::sort(current_.blocks);
  before_ = std::exchange(last_, std::exchange(current_, Round()));
  current_.has_begun = true;
  current_.begin = iteration.ops.size();
  return before_.has_begun && LastTwoDidSame(iteration, strings);
}

bool Rounds::LastTwoDidSame(const Iteration& iteration,
                            const std::vector<std::string>& strings) const {
  const bool waits_late =
      !iteration.late_waits.empty() && iteration.late_waits.back() >= before_.begin;
  if (!before_.repeats || !last_.repeats || waits_late || before_.blocks != last_.blocks ||
      before_.allocated != last_.allocated) {
    return false;
  }
  const size_t length = last_.end - last_.begin;
  return std::ranges::equal(
      before(iteration), last(iteration), [&](CanonicalOp earlier, const CanonicalOp& later) {
        if (later.dep != graph::kNoDep) {
          if (earlier.dep + length != later.dep || later.dep < before_.begin) {
            return false;
          }
          earlier.dep = later.dep;
        }
        if (later.kind == OpKind::kMarker) {
          if (LaterName(strings[earlier.signature], strings[later.signature], 1).empty()) {
            return false;
          }
          earlier.signature = later.signature;
        }
        return earlier == later;
      });
}

}  // namespace prism::slicer
