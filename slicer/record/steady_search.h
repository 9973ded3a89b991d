// Which iteration of a rank stands for all: the first that equals the next one. If none does, one
// that does except for segments; or the last one, if the one before does the same and first-time
// work (first_time_work.h); and where they communicate alike but compute differently (batches
// of different lengths), the last one, or the one that was chosen.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "slicer/record/first_time_work.h"
#include "slicer/record/recorded_iteration.h"

namespace prism::slicer {

// What rank 0 has determined for all others.
struct ChosenIteration {
  std::optional<int32_t> number;  // for ranks whose iterations differ; null: the last one
  bool always = false;            // even if two are identical: those of rank 0 are not

  bool operator==(const ChosenIteration&) const = default;
};

class SteadySearch {
 public:
  explicit SteadySearch(const ChosenIteration& chosen) : chosen_(chosen) {}

  // The next iteration has ended. `number` counts from 0.
  void Add(int32_t number, const Iteration& ended);

  // The program has ended inside this iteration, which counts up to where it is closed.
  void AddUnfinished(int32_t number, const Iteration& last);

  // It stands for all, alone.
  void TakeWhole(Iteration whole);

  // Nothing is added any more: takes what is next best. False if nothing is, or if that varies and
  // must not.
  bool Settle(bool may_vary);

  // The iteration that equals the next one or, once settled, stands for all.
  [[nodiscard]] const std::optional<int32_t>& found() const { return found_; }
  // It, once found.
  [[nodiscard]] const Iteration& iteration() const { return previous_; }
  // Whether others differ from it.
  [[nodiscard]] bool varies() const { return varies_; }
  // Segment ops that were left out of two iterations since only one of them has them.
  [[nodiscard]] int64_t unsteady_segments() const { return unsteady_segments_; }

  // If it stands for all because the one before differs only by first-time work: that.
  [[nodiscard]] const std::optional<FirstTimeWork>& first_time_work() const {
    return first_time_work_;
  }

  // Of the iteration after it: how many waits are late (late_waits.h), and the first of them.
  [[nodiscard]] int64_t late_waits() const { return late_waits_; }
  [[nodiscard]] const std::string& late_wait() const { return late_wait_; }

  // Where the last two that differ do, "" if none do; and whether only in their order.
  [[nodiscard]] const std::string& difference() const { return difference_; }
  [[nodiscard]] bool only_order_differs() const { return only_order_differs_; }

 private:
  struct Candidate {
    int32_t number;
    Iteration iteration;  // without its segment ops
    int64_t segments;     // how many those were
  };

  void Compare(int32_t number, const Iteration& current, bool whole);
  void KeepVarying(int32_t number, const Iteration& current);
  bool SettleByFirstTimeWork();
  void NoteLateWaits(const Iteration& current);

  ChosenIteration chosen_;
  int32_t number_ = 0;  // of the last that ended
  Iteration previous_;  // it
  Iteration earlier_;   // the one before
  std::optional<int32_t> found_;
  std::optional<Candidate> nearly_;   // the last that equals the next one except for segments
  std::optional<Candidate> varying_;  // that communicates as its neighbours do
  std::optional<FirstTimeWork> first_time_work_;
  bool varies_ = false;
  int64_t unsteady_segments_ = 0;
  int64_t late_waits_ = 0;
  std::string late_wait_;
  std::string difference_;
  bool only_order_differs_ = false;
};

}  // namespace prism::slicer
