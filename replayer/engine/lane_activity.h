// What kept the ranks of a class busy, counted as ranges arrive, one row at a time with one range
// per lane.
//
// The length of a union of ranges, taken in the order of their begins, needs one addition per
// range: the part after the end of the earlier ones. Ranks of a class do the same ops, so an order
// that holds in one lane mostly holds in all; then a row is counted for all lanes side by side.
// Where it does not, lanes are counted one by one.
//
// No range is ever clipped. For ranges that began before a time t, the part after t is one piece,
// up to the latest of their ends; so the begin and the end of the window take one subtraction each.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "graph/base/time.h"
#include "replayer/engine/breakdown.h"
#include "replayer/engine/lane_ranges.h"

namespace prism::replayer {

class LaneActivity {
 public:
  explicit LaneActivity(uint32_t lanes);

  // Allocates storage for up to that many rows at a time.
  void Reserve(size_t rows);

  [[nodiscard]] uint32_t lanes() const { return lanes_; }

  // A row, for the caller to fill before the next call.
  LaneRanges& Add(ActivityKind kind);

  // A row that the caller has filled, in exchange for storage.
  void Take(ActivityKind kind, LaneRanges* ranges);

  // Whether enough rows have arrived that they should be counted.
  [[nodiscard]] bool ShouldCount() const { return pending_.size() >= count_at_; }

  // Counts rows; every range added later begins at or after `until`, by lane.
  void CountUntil(const std::vector<TimeNs>& until);

  // Begins the window: at or after every `until` so far, at or before all later ones.
  void Open(const std::vector<TimeNs>& begin);

  // Ends the window, under the same rule. First match wins: compute, transfer, peer wait, the rest.
  // Opens the window if that was not done. Call once.
  [[nodiscard]] std::vector<RankTimes> Finish(const std::vector<TimeNs>& begin,
                                              const std::vector<TimeNs>& end);

 private:
  struct Row {
    ActivityKind kind = ActivityKind::kCompute;
    LaneRanges ranges;
  };

  struct LaneRange {
    TimeNs begin = 0;
    TimeNs end = 0;
    size_t kind = 0;
  };

  void MakeTotals();
  void SortPending();
  [[nodiscard]] size_t OrderedRows(const std::vector<TimeNs>& until, bool* ordered) const;
  void CountRows(size_t rows);
  void CountLane(uint32_t lane, TimeNs until);
  void Forget(const std::vector<bool>& counted);

  uint32_t lanes_;
  size_t rows_kept_;  // before they are counted
  std::vector<Row> pending_;
  std::vector<LaneRanges> spare_;
  size_t count_at_;
  bool open_ = false;
  // By lane: time in which that kind or one before it was active, and the latest end of those.
  std::array<std::vector<DurationNs>, kActivityKinds> covered_;
  std::array<std::vector<TimeNs>, kActivityKinds> until_;
  std::vector<LaneRange> of_lane_;  // storage
};

}  // namespace prism::replayer
