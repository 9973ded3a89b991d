#include "launch/emulate/run/recorded_slice.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace prism::launch {
namespace {

// By rank: its doubtful givers.
using Doubts = std::map<Rank, std::vector<Rank>>;

// Those that cannot be recorded in an order in which each is told what it lacks, with those that
// lack values of these.
std::set<Rank> RanksInCircles(const Doubts& doubts) {
  std::set<Rank> ranks;
  for (const auto& [rank, givers] : doubts) {
    ranks.insert(rank);
  }
  const auto lacks_nothing = [&](Rank rank) {
    return std::ranges::none_of(doubts.at(rank), [&](Rank giver) { return ranks.contains(giver); });
  };
  while (std::erase_if(ranks, lacks_nothing) > 0) {
  }
  return ranks;
}

// The rank, with those of its givers that have doubtful ones themselves, and so on.
std::set<Rank> WithGivers(const Doubts& doubts, Rank rank) {
  std::set<Rank> ranks = {rank};
  std::vector<Rank> open = {rank};
  while (!open.empty()) {
    const std::vector<Rank>& givers = doubts.at(open.back());
    open.pop_back();
    std::ranges::copy_if(givers, std::back_inserter(open), [&](Rank giver) {
      return doubts.contains(giver) && ranks.insert(giver).second;
    });
  }
  return ranks;
}

}  // namespace

void RecordedSlice::Add(RecordedRank recorded) {
  graph::Fragment& fragment = recorded.fragment;
  Known& known = known_[fragment.rank];
  ++ended_in_round_;
  known.sent = std::move(recorded.values);
  known.stopped.reset();
  known.guessed = recorded.guessed;
  known.doubtful_givers = std::move(recorded.doubtful_givers);
  known.iteration = fragment.warmup_iterations;
  if (fragment.rank == Rank(0)) {
    length_ = {fragment.steps_per_iteration,
               std::min(fragment.iterations, fragment.warmup_iterations + steady_iterations_),
               {.number = fragment.warmup_iterations, .always = fragment.varies}};
  }
  fragments_.push_back(std::move(fragment));
}

void RecordedSlice::Add(StoppedRank stopped) {
  Known& known = known_[stopped.rank];
  ++ended_in_round_;
  ++known.stops;
  if (stopped.values.size() <= known.certain_bytes || known.rehearsed) {
    stopped.values.clear();  // in the book already, and more
  }
  known.certain_bytes = std::max(known.certain_bytes, stopped.values.size());
  known.sent = stopped.values;
  known.doubtful_givers = std::move(stopped.doubtful_givers);
  known.stopped = std::move(stopped);
}

bool RecordedSlice::HasRun(Rank rank) const {
  const auto found = known_.find(rank);
  return found != known_.end() && found->second.told_bytes.has_value();
}

void RecordedSlice::EndRound() {
  std::sort(fragments_.begin(), fragments_.end(),
            [](const auto& a, const auto& b) { return a.rank < b.rank; });
  const uint64_t told = book_.size();
  for (auto& [rank, known] : known_) {
    if (known.sent.has_value()) {
      known.told_bytes = told;
      known.told_length = round_length_;
      book_ += *std::exchange(known.sent, std::nullopt);
    }
  }
  ended_in_round_ = 0;
  round_length_ = length_;
}

// Of stopped ranks, those that never ran.
std::set<Rank> RecordedSlice::UnknownGivers() const {
  std::set<Rank> givers;
  for (const auto& [rank, known] : known_) {
    if (known.stopped.has_value()) {
      std::ranges::copy_if(known.doubtful_givers, std::inserter(givers, givers.end()),
                           [this](Rank giver) { return !HasRun(giver); });
    }
  }
  return givers;
}

std::map<Rank, std::vector<Rank>> RecordedSlice::Doubts() const {
  std::map<Rank, std::vector<Rank>> doubts;
  for (const auto& [rank, known] : known_) {
    if (!known.doubtful_givers.empty()) {
      doubts[rank] = known.doubtful_givers;
    }
  }
  return doubts;
}

std::vector<Rank> RecordedSlice::Entangled() const {
  if (!UnknownGivers().empty()) {
    return {};
  }
  const auto doubts = Doubts();
  const std::set<Rank> in_circles = RanksInCircles(doubts);
  const bool is_stuck = StoppedThatKnowMore().empty();
  for (const auto& [rank, known] : known_) {
    if (!known.stopped.has_value() || known.rehearsed) {
      continue;
    }
    const std::set<Rank> together = WithGivers(doubts, rank);
    if (is_stuck ? together.size() > 1 : in_circles.contains(rank) && known.stops > 1) {
      return {together.begin(), together.end()};
    }
  }
  return {};
}

void RecordedSlice::AddRehearsed(const std::vector<Rank>& ranks, std::string_view values) {
  book_ += values;
  for (const Rank rank : ranks) {
    Known& known = known_[rank];
    known.rehearsed = true;
    known.stopped.reset();
    known.guessed = false;
    known.doubtful_givers.clear();
  }
  DropFragments(ranks);
}

void RecordedSlice::DropFragments(const std::vector<Rank>& ascending) {
  std::erase_if(fragments_, [&](const graph::Fragment& fragment) {
    return std::ranges::binary_search(ascending, fragment.rank);
  });
}

// Stopped ranks for which there is more in the book than what they were given and sent themselves.
std::vector<Rank> RecordedSlice::StoppedThatKnowMore() const {
  std::vector<Rank> ranks;
  for (const auto& [rank, known] : known_) {
    if (known.stopped.has_value() &&
        known.told_bytes < book_.size() - known.stopped->values.size()) {
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
  for (auto& [rank, known] : known_) {
    if (again.empty() && known.stopped.has_value()) {
      return known.stopped->end;
    }
  }
  for (const Rank rank : again) {
    known_.at(rank).stopped.reset();
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
  if (fragment.rank == Rank(0) || known_.at(fragment.rank).told_length == length_) {
    return false;
  }
  return fragment.steps_per_iteration != length_.steps ||
         fragment.iterations < length_.iterations || fragment.varies != length_.chosen.always ||
         (fragment.varies && fragment.warmup_iterations != length_.chosen.number);
}

bool RecordedSlice::WasToldTooEarly(const graph::Fragment& fragment) const {
  const Known& known = known_.at(fragment.rank);
  if (known.told_bytes == book_.size()) {
    return false;
  }
  return known.guessed ||
         std::any_of(fragment.warnings.begin(), fragment.warnings.end(),
                     [](const auto& warning) { return warning.code == "values_of_peer_role"; });
}

// It had doubtful ones; the values of all of them are certain by now.
bool RecordedSlice::HasCertainGivers(Rank rank) const {
  const std::vector<Rank>& givers = known_.at(rank).doubtful_givers;
  return !known_.at(rank).guessed && !givers.empty() &&
         std::ranges::all_of(givers, [this](Rank giver) {
           return HasRun(giver) && known_.at(giver).doubtful_givers.empty();
         });
}

std::vector<Rank> RecordedSlice::TakeToldTooEarly() {
  std::vector<Rank> ranks;
  for (const graph::Fragment& fragment : fragments_) {
    if (WasToldTooEarly(fragment) && !std::exchange(known_[fragment.rank].told_again, true)) {
      ranks.push_back(fragment.rank);
    }
  }
  if (ranks.empty()) {
    for (const graph::Fragment& fragment : fragments_) {
      if (HasCertainGivers(fragment.rank) &&
          !std::exchange(known_[fragment.rank].told_certain, true)) {
        ranks.push_back(fragment.rank);
      }
    }
  }
  DropFragments(ranks);
  return ranks;
}

std::vector<graph::Fragment> RecordedSlice::TakeFragments() {
  return std::exchange(fragments_, {});
}

uint64_t RecordedSlice::ValueBytes(Rank rank) const {
  return HasRun(rank) ? *known_.at(rank).told_bytes : book_.size();
}

std::optional<int32_t> RecordedSlice::IterationOf(Rank rank) const {
  const auto found = known_.find(rank);
  return found == known_.end() ? std::nullopt : found->second.iteration;
}

}  // namespace prism::launch
