// Loops over the lanes of a class, with one value per lane side by side. The engine spends most of
// its time here. Compiled for several vector widths, chosen when the program starts; the results
// are those of plain integer arithmetic. Rows must not overlap unless they are identical.
#pragma once

#include <cstddef>
#include <cstdint>

#include "graph/base/time.h"
#include "replayer/engine/lane_ranges.h"

namespace prism::replayer {

// tail = max(tail, base + host_ns) + duration_ns.
void PassRow(
    TimeNs* tail, const TimeNs* base, DurationNs host_ns, DurationNs duration_ns, size_t lanes);

// out = max(row, base + host_ns).
void MaxRow(const TimeNs* row, const TimeNs* base, DurationNs host_ns, TimeNs* out, size_t lanes);

// out = min(out, row).
void MinRow(const TimeNs* row, TimeNs* out, size_t lanes);

// row += duration_ns.
void AddRow(DurationNs duration_ns, TimeNs* row, size_t lanes);

// total += to - from.
void AddSpanRow(const TimeNs* from, const TimeNs* to, DurationNs* total, size_t lanes);

// The largest value; there must be at least one.
TimeNs LargestOf(const TimeNs* row, size_t lanes);

// Whether row < base + host_ns in any lane.
bool AnyBefore(const TimeNs* row, const TimeNs* base, DurationNs host_ns, size_t lanes);

// A stream that is busy until `tail` and has computed since `since` without a gap.
struct BusyRows {
  TimeNs* tail = nullptr;
  TimeNs* since = nullptr;
};

// Whether, in any lane, an op issued at base + host_ns would leave a gap after the compute before
// it.
bool AnyBroken(const BusyRows& busy, const TimeNs* base, DurationNs host_ns, size_t lanes);

// As PassRow, and maintains `since`: where the stream was idle before the op, compute starts with
// it. Requires that no compute precedes such a gap (AnyBroken).
void PassBusyRow(const BusyRows& busy,
                 const TimeNs* base,
                 DurationNs host_ns,
                 DurationNs duration_ns,
                 size_t lanes);

// Adds the part of each range after `until` to `covered`, and moves `until` to the end of the
// range.
void CoverRow(
    const TimeNs* begin, const TimeNs* end, TimeNs* until, DurationNs* covered, size_t lanes);

// out = the union of both ranges as one; returns whether, in every lane, that is no longer than the
// two together.
bool JoinRow(const LaneRanges& a, const LaneRanges& b, LaneRanges* out);

// One transfer of a hold, by lane, and the latest start and end of all its transfers.
struct TransferRows {
  TimeNs* begin = nullptr;
  TimeNs* end = nullptr;
  TimeNs* latest_start = nullptr;
  TimeNs* latest_end = nullptr;
};

// A transfer that both sides have reached: `own` by lane of this side, `other` by lane of the other
// side, whose lane is other_lane[lane].
struct MatchRows {
  const TimeNs* own = nullptr;
  const TimeNs* other = nullptr;
  const uint32_t* other_lane = nullptr;
  DurationNs transfer_ns = 0;
};

// The transfer begins when both sides have arrived.
void MatchRow(const MatchRows& match, const TransferRows& out, size_t lanes);

// The other side has sent already, whether or not this side was ready to receive.
void ReceiveEagerRow(const MatchRows& match, const TransferRows& out, size_t lanes);

// The transfer begins at `begin`, indexed by lane, or through `index` if that is given.
void SettleRow(const TimeNs* begin,
               const uint32_t* index,
               DurationNs transfer_ns,
               const TransferRows& out,
               size_t lanes);

}  // namespace prism::replayer
