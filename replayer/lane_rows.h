// Loops over the lanes of a class, one value a lane side by side: what the engine spends its time
// in. Compiled for several vector widths, chosen when the program starts; the results are those of
// plain integers. Rows do not overlap unless they are the same.
#pragma once

#include <cstddef>
#include <cstdint>

#include "graph/base/time.h"
#include "replayer/lane_ranges.h"

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

// The largest value; there is one.
TimeNs LargestOf(const TimeNs* row, size_t lanes);

// Whether row < base + host_ns anywhere.
bool AnyBefore(const TimeNs* row, const TimeNs* base, DurationNs host_ns, size_t lanes);

// A stream that is busy until `tail` and computes since `since` without a gap.
struct BusyRows {
  TimeNs* tail = nullptr;
  TimeNs* since = nullptr;
};

// Whether an op issued at base + host_ns would end compute that began before, anywhere.
bool AnyBroken(const BusyRows& busy, const TimeNs* base, DurationNs host_ns, size_t lanes);

// As PassRow. Where the stream was idle before, it computes since then; there it had not computed.
void PassBusyRow(const BusyRows& busy,
                 const TimeNs* base,
                 DurationNs host_ns,
                 DurationNs duration_ns,
                 size_t lanes);

// What lies behind `until` of the ranges is added to `covered`, and `until` moves to their ends.
void CoverRow(
    const TimeNs* begin, const TimeNs* end, TimeNs* until, DurationNs* covered, size_t lanes);

// out = the ranges of both as one; whether it is no longer than the two together anywhere.
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

// It begins when both are there.
void MatchRow(const MatchRows& match, const TransferRows& out, size_t lanes);

// The other side has sent already, whether or not this side was there to receive.
void ReceiveEagerRow(const MatchRows& match, const TransferRows& out, size_t lanes);

// It begins at `begin`, by lane through `index` where that is given.
void SettleRow(const TimeNs* begin,
               const uint32_t* index,
               DurationNs transfer_ns,
               const TransferRows& out,
               size_t lanes);

}  // namespace prism::replayer
