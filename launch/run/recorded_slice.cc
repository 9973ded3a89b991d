#include "launch/run/recorded_slice.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace prism::launch {
namespace {

// By rank: its doubtful givers.
using Lacks = std::map<Rank, std::vector<Rank>>;

// Those that cannot be recorded in an order in which each is told what it lacks, with those that
// lack values of these.
std::set<Rank> RanksInCircles(const Lacks& lacks) {
  std::set<Rank> ranks;
  for (const auto& [rank, givers] : lacks) {
    ranks.insert(rank);
  }
  const auto lacks_nothing = [&](Rank rank) {
    return std::ranges::none_of(lacks.at(rank), [&](Rank giver) { return ranks.contains(giver); });
  };
  while (std::erase_if(ranks, lacks_nothing) > 0) {
  }
  return ranks;
}

// The rank, with those of its givers that lack values themselves, and so on.
std::set<Rank> WithGivers(const Lacks& lacks, Rank rank) {
  std::set<Rank> ranks = {rank};
  std::vector<Rank> open = {rank};
  while (!open.empty()) {
    const std::vector<Rank>& givers = lacks.at(open.back());
    open.pop_back();
    std::ranges::copy_if(givers, std::back_inserter(open), [&](Rank giver) {
      return lacks.contains(giver) && ranks.insert(giver).second;
    });
  }
  return ranks;
}

}  // namespace

void RecordedSlice::Add(RecordedRank recorded) {
  graph::Fragment& fragment = recorded.fragment;
  given_[fragment.rank] = std::move(recorded.values);
  Forget(fragment.rank);
  if (!recorded.guessed_from.empty()) {
    guessed_.insert(fragment.rank);
  }
  if (!recorded.doubtful_givers.empty()) {
    doubtful_[fragment.rank] = std::move(recorded.doubtful_givers);
  }
  iterations_[fragment.rank] = fragment.warmup_iterations;
  if (fragment.rank == Rank(0)) {
    length_ = {fragment.steps_per_iteration,
               std::min(fragment.iterations, fragment.warmup_iterations + steady_iterations_),
               {.number = fragment.warmup_iterations, .always = fragment.varies}};
  }
  fragments_.push_back(std::move(fragment));
}

void RecordedSlice::Add(StoppedRank stopped) {
  ++stops_[stopped.rank];
  size_t& known_bytes = stopped_bytes_[stopped.rank];
  if (stopped.values.size() <= known_bytes || rehearsed_.contains(stopped.rank)) {
    stopped.values.clear();  // in the book already, and more
  }
  known_bytes = std::max(known_bytes, stopped.values.size());
  given_[stopped.rank] = stopped.values;
  stopped_.insert_or_assign(stopped.rank, std::move(stopped));
}

void RecordedSlice::EndRound() {
  std::sort(fragments_.begin(), fragments_.end(),
            [](const auto& a, const auto& b) { return a.rank < b.rank; });
  const uint64_t told = book_.size();
  for (const auto& [rank, values] : given_) {
    told_bytes_[rank] = told;
    told_length_[rank] = round_length_;
    book_ += values;
  }
  given_.clear();
  round_length_ = length_;
}

// Of stopped ranks, those that were never recorded.
std::set<Rank> RecordedSlice::UnknownGivers() const {
  std::set<Rank> givers;
  for (const auto& [rank, stopped] : stopped_) {
    givers.insert(stopped.doubtful_givers.begin(), stopped.doubtful_givers.end());
  }
  std::erase_if(givers, [this](Rank rank) { return HasRun(rank); });
  return givers;
}

std::vector<Rank> RecordedSlice::Entangled() const {
  if (!UnknownGivers().empty()) {
    return {};
  }
  Lacks lacks = doubtful_;
  for (const auto& [rank, stopped] : stopped_) {
    lacks[rank] = stopped.doubtful_givers;
  }
  const std::set<Rank> in_circles = RanksInCircles(lacks);
  const bool is_stuck = StoppedThatKnowMore().empty();
  for (const auto& [rank, stopped] : stopped_) {
    const std::set<Rank> together = WithGivers(lacks, rank);
    const bool helps =
        is_stuck ? together.size() > 1 : in_circles.contains(rank) && stops_.at(rank) > 1;
    if (helps && !rehearsed_.contains(rank)) {
      return {together.begin(), together.end()};
    }
  }
  return {};
}

void RecordedSlice::AddRehearsed(const std::vector<Rank>& ranks, std::string_view values) {
  book_ += values;
  for (const Rank rank : ranks) {
    rehearsed_.insert(rank);
    stopped_.erase(rank);
    Forget(rank);
  }
  DropFragments(ranks);
}

void RecordedSlice::Forget(Rank rank) {
  guessed_.erase(rank);
  doubtful_.erase(rank);
}

void RecordedSlice::DropFragments(const std::vector<Rank>& ascending) {
  std::erase_if(fragments_, [&](const graph::Fragment& fragment) {
    return std::ranges::binary_search(ascending, fragment.rank);
  });
}

// Stopped ranks for which there is more in the book than what they were given and sent themselves.
std::vector<Rank> RecordedSlice::StoppedThatKnowMore() const {
  std::vector<Rank> ranks;
  for (const auto& [rank, stopped] : stopped_) {
    if (told_bytes_.at(rank) < book_.size() - stopped.values.size()) {
      ranks.push_back(rank);
    }
  }
  return ranks;
}

Result<std::vector<Rank>> RecordedSlice::TakeLacking() {
  const std::set<Rank> unknown = UnknownGivers();
  if (!unknown.empty()) {
    return std::vector<Rank>(unknown.begin(), unknown.end());
  }
  std::vector<Rank> again = StoppedThatKnowMore();
  if (again.empty() && !stopped_.empty()) {
    return stopped_.begin()->second.end;
  }
  for (const Rank rank : again) {
    stopped_.erase(rank);
  }
  if (again.empty()) {
    for (const graph::Fragment& fragment : fragments_) {
      if (IsOfOtherLength(fragment)) {
        again.push_back(fragment.rank);
      }
    }
    DropFragments(again);
  }
  return again;
}

bool RecordedSlice::IsOfOtherLength(const graph::Fragment& fragment) const {
  if (fragment.rank == Rank(0) || told_length_.at(fragment.rank) == length_) {
    return false;
  }
  return fragment.steps_per_iteration != length_.steps ||
         fragment.iterations < length_.iterations || fragment.varies != length_.chosen.always ||
         (fragment.varies && fragment.warmup_iterations != length_.chosen.number);
}

bool RecordedSlice::WasToldTooEarly(const graph::Fragment& fragment) const {
  if (told_bytes_.at(fragment.rank) == book_.size()) {
    return false;
  }
  return guessed_.contains(fragment.rank) ||
         std::any_of(fragment.warnings.begin(), fragment.warnings.end(),
                     [](const auto& warning) { return warning.code == "values_of_peer_role"; });
}

std::vector<Rank> RecordedSlice::TakeToldTooEarly() {
  std::vector<Rank> ranks;
  for (const graph::Fragment& fragment : fragments_) {
    if (WasToldTooEarly(fragment) && told_again_.insert(fragment.rank).second) {
      ranks.push_back(fragment.rank);
    }
  }
  DropFragments(ranks);
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
