// These loops take most of the time of a replay with many lanes, so each is written such that the
// compiler makes vector instructions of it: no branch on a time, conditions of all lanes or-ed into
// the sign of one integer, `__restrict` where it could not know that rows are distinct. All
// arithmetic is on integers, so the versions for different vector widths agree to the bit.
#include "replayer/engine/lane_rows.h"

#include <algorithm>

#include "replayer/engine/vector_versions.h"

namespace prism::replayer {

PRISM_VECTOR_VERSIONS
void PassRow(
    TimeNs* tail, const TimeNs* base, DurationNs host_ns, DurationNs duration_ns, size_t lanes) {
  for (size_t lane = 0; lane < lanes; ++lane) {
    tail[lane] = std::max(tail[lane], base[lane] + host_ns) + duration_ns;
  }
}

PRISM_VECTOR_VERSIONS
void MaxRow(const TimeNs* row, const TimeNs* base, DurationNs host_ns, TimeNs* out, size_t lanes) {
  for (size_t lane = 0; lane < lanes; ++lane) {
    out[lane] = std::max(row[lane], base[lane] + host_ns);
  }
}

PRISM_VECTOR_VERSIONS
void MinRow(const TimeNs* row, TimeNs* out, size_t lanes) {
  for (size_t lane = 0; lane < lanes; ++lane) {
    out[lane] = std::min(out[lane], row[lane]);
  }
}

PRISM_VECTOR_VERSIONS
void AddRow(DurationNs duration_ns, TimeNs* row, size_t lanes) {
  for (size_t lane = 0; lane < lanes; ++lane) {
    row[lane] += duration_ns;
  }
}

PRISM_VECTOR_VERSIONS
void AddSpanRow(const TimeNs* from, const TimeNs* to, DurationNs* total, size_t lanes) {
  for (size_t lane = 0; lane < lanes; ++lane) {
    total[lane] += to[lane] - from[lane];
  }
}

PRISM_VECTOR_VERSIONS
TimeNs LargestOf(const TimeNs* row, size_t lanes) {
  TimeNs largest = row[0];
  for (size_t lane = 1; lane < lanes; ++lane) {
    largest = std::max(largest, row[lane]);
  }
  return largest;
}

// Differences of times do not overflow, so their signs suffice; or-ing them needs no branch.
PRISM_VECTOR_VERSIONS
bool AnyBefore(const TimeNs* row, const TimeNs* base, DurationNs host_ns, size_t lanes) {
  int64_t any = 0;
  for (size_t lane = 0; lane < lanes; ++lane) {
    any |= row[lane] - (base[lane] + host_ns);
  }
  return any < 0;
}

PRISM_VECTOR_VERSIONS
bool AnyBroken(const BusyRows& busy, const TimeNs* base, DurationNs host_ns, size_t lanes) {
  const TimeNs* const tail = busy.tail;
  const TimeNs* const since = busy.since;
  int64_t any = 0;
  for (size_t lane = 0; lane < lanes; ++lane) {
    any |= (tail[lane] - (base[lane] + host_ns)) & (since[lane] - tail[lane]);
  }
  return any < 0;
}

PRISM_VECTOR_VERSIONS
void PassBusyRow(const BusyRows& busy,
                 const TimeNs* base,
                 DurationNs host_ns,
                 DurationNs duration_ns,
                 size_t lanes) {
  TimeNs* __restrict const tail = busy.tail;
  TimeNs* __restrict const since = busy.since;
  for (size_t lane = 0; lane < lanes; ++lane) {
    const TimeNs issue = base[lane] + host_ns;
    const TimeNs idle_from = tail[lane];
    since[lane] = issue > idle_from ? issue : since[lane];
    tail[lane] = std::max(idle_from, issue) + duration_ns;
  }
}

PRISM_VECTOR_VERSIONS
void CoverRow(
    const TimeNs* begin, const TimeNs* end, TimeNs* until, DurationNs* covered, size_t lanes) {
  TimeNs* __restrict const to = until;
  DurationNs* __restrict const sum = covered;
  for (size_t lane = 0; lane < lanes; ++lane) {
    const DurationNs behind = end[lane] - std::max(begin[lane], to[lane]);
    sum[lane] += std::max(DurationNs{0}, behind);
    to[lane] = behind > 0 ? end[lane] : to[lane];
  }
}

PRISM_VECTOR_VERSIONS
bool JoinRow(const LaneRanges& a, const LaneRanges& b, LaneRanges* out) {
  const TimeNs* const a_begin = a.begin();
  const TimeNs* const a_end = a.end();
  const TimeNs* const b_begin = b.begin();
  const TimeNs* const b_end = b.end();
  TimeNs* __restrict const begin = out->begin();
  TimeNs* __restrict const end = out->end();
  const size_t lanes = a.lanes();
  int64_t gaps = 0;
  for (size_t lane = 0; lane < lanes; ++lane) {
    gaps |= (a_end[lane] - b_begin[lane]) | (b_end[lane] - a_begin[lane]);
    begin[lane] = std::min(a_begin[lane], b_begin[lane]);
    end[lane] = std::max(a_end[lane], b_end[lane]);
  }
  return gaps >= 0;
}

PRISM_VECTOR_VERSIONS
void MatchRow(const MatchRows& match, const TransferRows& out, size_t lanes) {
  const TimeNs* const own = match.own;
  const TimeNs* const other = match.other;
  const uint32_t* const other_lane = match.other_lane;
  const DurationNs transfer_ns = match.transfer_ns;
  TimeNs* __restrict const begin = out.begin;
  TimeNs* __restrict const end = out.end;
  TimeNs* __restrict const latest_start = out.latest_start;
  TimeNs* __restrict const latest_end = out.latest_end;
  for (size_t lane = 0; lane < lanes; ++lane) {
    const TimeNs both = std::max(own[lane], other[other_lane[lane]]);
    const TimeNs over = both + transfer_ns;
    begin[lane] = both;
    end[lane] = over;
    latest_start[lane] = std::max(latest_start[lane], both);
    latest_end[lane] = std::max(latest_end[lane], over);
  }
}

PRISM_VECTOR_VERSIONS
void ReceiveEagerRow(const MatchRows& match, const TransferRows& out, size_t lanes) {
  const TimeNs* const own = match.own;
  const TimeNs* const other = match.other;
  const uint32_t* const other_lane = match.other_lane;
  const DurationNs transfer_ns = match.transfer_ns;
  TimeNs* __restrict const begin = out.begin;
  TimeNs* __restrict const end = out.end;
  TimeNs* __restrict const latest_start = out.latest_start;
  TimeNs* __restrict const latest_end = out.latest_end;
  for (size_t lane = 0; lane < lanes; ++lane) {
    const TimeNs sent = other[other_lane[lane]];
    const TimeNs both = std::max(own[lane], sent);
    const TimeNs over = std::max(own[lane], sent + transfer_ns);
    begin[lane] = both;
    end[lane] = over;
    latest_start[lane] = std::max(latest_start[lane], both);
    latest_end[lane] = std::max(latest_end[lane], over);
  }
}

PRISM_VECTOR_VERSIONS
void SettleRow(const TimeNs* begin,
               const uint32_t* index,
               DurationNs transfer_ns,
               const TransferRows& out,
               size_t lanes) {
  TimeNs* __restrict const from = out.begin;
  TimeNs* __restrict const to = out.end;
  TimeNs* __restrict const latest_start = out.latest_start;
  TimeNs* __restrict const latest_end = out.latest_end;
  for (size_t lane = 0; lane < lanes; ++lane) {
    const TimeNs at = index == nullptr ? begin[lane] : begin[index[lane]];
    from[lane] = at;
    to[lane] = at + transfer_ns;
    latest_start[lane] = std::max(latest_start[lane], at);
    latest_end[lane] = std::max(latest_end[lane], at + transfer_ns);
  }
}

}  // namespace prism::replayer
