#include "launch/emulate/run/recorded_slice.h"

#include <algorithm>
#include <iterator>
#include <span>
#include <utility>

#include "shim/channel/value_book.h"

namespace prism::launch {
namespace {

// By consumer: its speculative producers.
using ProducersOf = std::map<Rank, std::vector<Rank>>;

// Those on a dependency cycle, and those that depend on one: what is left when ranks whose
// producers have all settled are removed until none is.
std::set<Rank> RanksInCycles(const ProducersOf& producers_of) {
  std::set<Rank> ranks;
  for (const auto& [rank, producers] : producers_of) {
    ranks.insert(rank);
  }
  const auto has_settled = [&](Rank rank) {
    return std::ranges::none_of(producers_of.at(rank),
                                [&](Rank producer) { return ranks.contains(producer); });
  };
  while (std::erase_if(ranks, has_settled) > 0) {
  }
  return ranks;
}

// The rank, with those of its producers that have speculative ones themselves, and so on.
std::set<Rank> WithProducers(const ProducersOf& producers_of, Rank rank) {
  std::set<Rank> ranks = {rank};
  std::vector<Rank> open = {rank};
  while (!open.empty()) {
    const std::vector<Rank>& producers = producers_of.at(open.back());
    open.pop_back();
    std::ranges::copy_if(producers, std::back_inserter(open), [&](Rank producer) {
      return producers_of.contains(producer) && ranks.insert(producer).second;
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
  known.speculative_producers = std::move(recorded.speculative_producers);
  known.iteration = fragment.warmup_iterations;
  if (fragment.rank == Rank(0)) {
    length_ = {fragment.steps_per_iteration,
               std::min(fragment.iterations, fragment.warmup_iterations + steady_iterations_),
               {.number = fragment.warmup_iterations, .always = fragment.varies}};
    TakeOdd(&recorded);
    for (size_t i = 0; i < std::min(recorded.odd.size(), slicer::kMaxOddKinds); ++i) {
      length_.odd.at(i) = recorded.odd[i].warmup_iterations;
    }
  }
  odd_[fragment.rank] = std::move(recorded.odd);
  fragments_.push_back(std::move(fragment));
}

void RecordedSlice::Add(StoppedRank stopped) {
  Known& known = known_[stopped.rank];
  ++ended_in_round_;
  ++known.stops;
  if (stopped.values.size() <= known.nonspeculative_bytes || known.co_recorded) {
    stopped.values.clear();  // in the book already, and more
  }
  known.nonspeculative_bytes = std::max(known.nonspeculative_bytes, stopped.values.size());
  known.sent = stopped.values;
  known.speculative_producers = std::move(stopped.speculative_producers);
  known.stopped = std::move(stopped);
}

// Rank 0 looks for odd iterations when it runs first; later it is recorded for as long as is known.
void RecordedSlice::TakeOdd(RecordedRank* rank_0) {
  graph::Fragment& fragment = rank_0->fragment;
  const auto tells_odd = [](const graph::Warning& warning) {
    return warning.code == "odd_iteration";
  };
  if (round_length_.iterations == 0) {
    odd_kinds_ = std::move(rank_0->odd_kinds);
    seen_ = rank_0->seen;
    odd_numbers_ = fragment.odd_iterations;
    odd_warnings_.clear();
    std::ranges::copy_if(fragment.warnings, std::back_inserter(odd_warnings_), tells_odd);
    return;
  }
  fragment.odd_iterations = odd_numbers_;
  std::erase_if(fragment.warnings, tells_odd);
  std::ranges::copy(odd_warnings_, std::back_inserter(fragment.warnings));
}

bool RecordedSlice::HasRun(Rank rank) const {
  const auto found = known_.find(rank);
  return found != known_.end() && found->second.book_bytes.has_value();
}

void RecordedSlice::EndRound() {
  std::sort(fragments_.begin(), fragments_.end(),
            [](const auto& a, const auto& b) { return a.rank < b.rank; });
  const uint64_t given = book_.size();
  for (auto& [rank, known] : known_) {
    if (known.sent.has_value()) {
      known.book_bytes = given;
      known.length = round_length_;
      book_ += *std::exchange(known.sent, std::nullopt);
    }
  }
  ended_in_round_ = 0;
  round_length_ = length_;
}

// Of stopped ranks, those that never ran.
std::set<Rank> RecordedSlice::MissingProducers() const {
  std::set<Rank> producers;
  for (const auto& [rank, known] : known_) {
    if (known.stopped.has_value()) {
      std::ranges::copy_if(known.speculative_producers, std::inserter(producers, producers.end()),
                           [this](Rank producer) { return !HasRun(producer); });
    }
  }
  return producers;
}

std::map<Rank, std::vector<Rank>> RecordedSlice::ProducersOf() const {
  std::map<Rank, std::vector<Rank>> producers_of;
  for (const auto& [rank, known] : known_) {
    if (!known.speculative_producers.empty()) {
      producers_of[rank] = known.speculative_producers;
    }
  }
  return producers_of;
}

std::vector<Rank> RecordedSlice::DependencyCycle() const {
  if (!MissingProducers().empty()) {
    return {};
  }
  const auto producers_of = ProducersOf();
  const std::set<Rank> in_cycles = RanksInCycles(producers_of);
  const bool is_stuck = StoppedWithNewValues().empty();
  for (const auto& [rank, known] : known_) {
    if (!known.stopped.has_value() || known.co_recorded) {
      continue;
    }
    const std::set<Rank> together = WithProducers(producers_of, rank);
    if (is_stuck ? together.size() > 1 : in_cycles.contains(rank) && known.stops > 1) {
      return {together.begin(), together.end()};
    }
  }
  return {};
}

void RecordedSlice::AddCoRecorded(const std::vector<Rank>& ranks, std::string_view values) {
  book_ += values;
  for (const Rank rank : ranks) {
    Known& known = known_[rank];
    known.co_recorded = true;
    known.stopped.reset();
    known.guessed = false;
    known.speculative_producers.clear();
  }
  DropFragments(ranks);
}

void RecordedSlice::DropFragments(const std::vector<Rank>& ascending) {
  std::erase_if(fragments_, [&](const graph::Fragment& fragment) {
    return std::ranges::binary_search(ascending, fragment.rank);
  });
}

// Stopped ranks for which there is more in the book than what they were given and sent themselves.
std::vector<Rank> RecordedSlice::StoppedWithNewValues() const {
  std::vector<Rank> ranks;
  for (const auto& [rank, known] : known_) {
    if (known.stopped.has_value() &&
        known.book_bytes < book_.size() - known.stopped->values.size()) {
      ranks.push_back(rank);
    }
  }
  return ranks;
}

Result<std::vector<Rank>> RecordedSlice::TakeLacking() {
  const std::set<Rank> unknown = MissingProducers();
  if (!unknown.empty()) {
    return std::vector<Rank>(unknown.begin(), unknown.end());
  }
  std::vector<Rank> again = StoppedWithNewValues();
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
  if (fragment.rank == Rank(0) || known_.at(fragment.rank).length == length_) {
    return false;
  }
  return fragment.steps_per_iteration != length_.steps ||
         known_.at(fragment.rank).length.odd != length_.odd ||
         fragment.iterations < length_.iterations || fragment.varies != length_.chosen.always ||
         (fragment.varies && fragment.warmup_iterations != length_.chosen.number);
}

bool RecordedSlice::IsStale(const graph::Fragment& fragment) const {
  const Known& known = known_.at(fragment.rank);
  if (known.book_bytes == book_.size()) {
    return false;
  }
  return known.guessed ||
         std::any_of(fragment.warnings.begin(), fragment.warnings.end(),
                     [](const auto& warning) { return warning.code == "values_of_peer_role"; });
}

// It had speculative ones, none of which has any itself by now.
bool RecordedSlice::HasSettledProducers(Rank rank) const {
  const std::vector<Rank>& producers = known_.at(rank).speculative_producers;
  return !known_.at(rank).guessed && !producers.empty() &&
         std::ranges::all_of(producers, [this](Rank producer) {
           return HasRun(producer) && known_.at(producer).speculative_producers.empty();
         });
}

std::vector<Rank> RecordedSlice::TakeStale() {
  std::vector<Rank> ranks;
  for (const graph::Fragment& fragment : fragments_) {
    if (IsStale(fragment) && !std::exchange(known_[fragment.rank].again_as_stale, true)) {
      ranks.push_back(fragment.rank);
    }
  }
  if (ranks.empty()) {
    for (const graph::Fragment& fragment : fragments_) {
      if (HasSettledProducers(fragment.rank) &&
          !std::exchange(known_[fragment.rank].again_as_settled, true)) {
        ranks.push_back(fragment.rank);
      }
    }
  }
  DropFragments(ranks);
  return ranks;
}

std::vector<Rank> RecordedSlice::TakeMisled(int most_times) {
  const std::map<int32_t, size_t> others =
      channel::ValueBook(std::as_bytes(std::span(book_))).OthersContributions();
  std::vector<Rank> ranks;
  for (const graph::Fragment& fragment : fragments_) {
    Known& known = known_.at(fragment.rank);
    const auto other = others.find(static_cast<int32_t>(fragment.rank.value()));
    if (other != others.end() && known.book_bytes < other->second &&
        known.again_as_misled < most_times) {
      ++known.again_as_misled;
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
  return HasRun(rank) ? *known_.at(rank).book_bytes : book_.size();
}

std::optional<int32_t> RecordedSlice::IterationOf(Rank rank) const {
  const auto found = known_.find(rank);
  return found == known_.end() ? std::nullopt : found->second.iteration;
}

}  // namespace prism::launch
