#include "slicer/record/steady_search.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include <fmt/format.h>

namespace prism::slicer {

void SteadySearch::Add(int32_t number, const Iteration& ended) {
  if (!previous_.ops.empty()) {
    Compare(number, ended, true);
  }
  if (!found_.has_value()) {
    earlier_ = std::exchange(previous_, ended);
    number_ = number;
  }
}

void SteadySearch::AddUnfinished(int32_t number, const Iteration& last) {
  if (!previous_.ops.empty()) {
    Compare(number, last, false);
  }
}

void SteadySearch::TakeWhole(Iteration whole) {
  previous_ = std::move(whole);
  found_ = 0;
}

// Whether an iteration does what the previous one did, under any names: as a whole, or up to where
// they are closed. The caching allocator may still allocate or release a segment in one iteration
// and not in the next; such ops are not part of the steady state.
void SteadySearch::Compare(int32_t number, const Iteration& current, bool whole) {
  const auto difference = [whole](const Iteration& a, const Iteration& b) {
    return FirstDifference(
        a, b, whole ? std::max(a.ops.size(), b.ops.size()) : size_t{std::max(a.closed, b.closed)});
  };
  if (chosen_.always) {
    KeepVarying(number, current);
    return;
  }
  Iteration before = WithoutRanges(previous_);
  Iteration after = WithoutRanges(current);
  if (!difference(before, after).has_value()) {
    found_ = number - 1;
    NoteLateWaits(current);
    return;
  }
  const int64_t segments = DropSegments(&before) + DropSegments(&after);
  const std::optional<size_t> at = difference(before, after);
  if (!at.has_value()) {
    nearly_ = Candidate{number - 1, previous_, segments};
    DropSegments(&nearly_->iteration);
    NoteLateWaits(current);
    return;
  }
  difference_ = fmt::format("iterations {} and {} differ at op {}: {} against {}", number - 1,
                            number, *at, DescribeAt(before, *at), DescribeAt(after, *at));
  only_order_differs_ = DoSameInAnotherOrder(before, after);
  if (whole && !only_order_differs_) {
    KeepVarying(number, current);
  }
}

void SteadySearch::KeepVarying(int32_t number, const Iteration& current) {
  const auto is_wanted = [&](int32_t iteration) {
    return !chosen_.number.has_value() || chosen_.number == iteration;
  };
  const bool takes_current = is_wanted(number);
  const bool takes_previous = !varying_.has_value() && is_wanted(number - 1);
  if ((takes_current || takes_previous) && CommunicateAlike(previous_, current)) {
    varying_ = takes_current ? Candidate{number, current, 0} : Candidate{number - 1, previous_, 0};
    varying_->segments = DropSegments(&varying_->iteration);
  }
}

// For the second of two that do the same: the very first has none before it.
void SteadySearch::NoteLateWaits(const Iteration& current) {
  late_waits_ = static_cast<int64_t>(current.late_waits.size());
  late_wait_ = late_waits_ == 0 ? "" : DescribeAt(current, current.late_waits.front());
}

// The last one, whose own segment ops do not count.
bool SteadySearch::SettleByFirstTimeWork() {
  if (earlier_.ops.empty() || chosen_.always) {
    return false;
  }
  first_time_work_ = FindFirstTimeWork(earlier_, previous_);
  if (!first_time_work_.has_value()) {
    return false;
  }
  found_ = number_;
  unsteady_segments_ = DropSegments(&previous_);
  NoteLateWaits(previous_);
  return true;
}

bool SteadySearch::Settle(bool may_vary) {
  if (found_.has_value()) {
    return true;
  }
  if (!nearly_.has_value() && !may_vary) {
    return SettleByFirstTimeWork();
  }
  std::optional<Candidate>& best = nearly_.has_value() ? nearly_ : varying_;
  varies_ = !nearly_.has_value() && varying_.has_value();
  if (!nearly_.has_value() && !varies_) {
    return false;
  }
  found_ = best->number;
  previous_ = std::move(best->iteration);
  unsteady_segments_ = best->segments;
  return true;
}

}  // namespace prism::slicer
