#include "launch/run/recorded_slice.h"

#include <algorithm>
#include <utility>

namespace prism::launch {

void RecordedSlice::Add(graph::Fragment fragment, std::string_view values) {
  given_[fragment.rank] = values;
  iterations_[fragment.rank] = fragment.warmup_iterations;
  if (fragment.rank == Rank(0)) {
    length_ = {fragment.steps_per_iteration,
               std::min(fragment.iterations, fragment.warmup_iterations + steady_iterations_)};
  }
  fragments_.push_back(std::move(fragment));
}

void RecordedSlice::EndRound() {
  std::sort(fragments_.begin(), fragments_.end(),
            [](const auto& a, const auto& b) { return a.rank < b.rank; });
  const uint64_t told = book_.size();
  for (const auto& [rank, values] : given_) {
    told_bytes_[rank] = told;
    book_ += values;
  }
  given_.clear();
}

std::vector<Rank> RecordedSlice::TakeToldTooEarly() {
  std::vector<Rank> ranks;
  for (const graph::Fragment& fragment : fragments_) {
    const bool guessed =
        std::any_of(fragment.warnings.begin(), fragment.warnings.end(),
                    [](const auto& warning) { return warning.code == "values_of_peer_role"; });
    if (guessed && told_bytes_.at(fragment.rank) < book_.size() &&
        told_again_.insert(fragment.rank).second) {
      ranks.push_back(fragment.rank);
    }
  }
  std::erase_if(fragments_, [&](const graph::Fragment& fragment) {
    return std::binary_search(ranks.begin(), ranks.end(), fragment.rank);
  });
  return ranks;
}

std::vector<graph::Fragment> RecordedSlice::TakeFragments() {
  return std::exchange(fragments_, {});
}

uint64_t RecordedSlice::ValueBytes(Rank rank) const {
  const auto told = told_bytes_.find(rank);
  return told == told_bytes_.end() ? book_.size() : told->second;
}

std::optional<int32_t> RecordedSlice::IterationOf(Rank rank) const {
  const auto found = iterations_.find(rank);
  return found == iterations_.end() ? std::nullopt : std::optional<int32_t>(found->second);
}

}  // namespace prism::launch
