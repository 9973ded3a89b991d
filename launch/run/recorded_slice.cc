#include "launch/run/recorded_slice.h"

#include <algorithm>
#include <utility>

namespace prism::launch {
namespace {

// By rank: from whom it was given other values.
using Lacks = std::map<Rank, std::vector<Rank>>;

bool Contains(const std::vector<Rank>& ranks, Rank rank) {
  return std::ranges::find(ranks, rank) != ranks.end();
}

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

// Adds all that lack values of one of the ranks, or the other way round, and so on.
void AddConnected(const Lacks& lacks, std::set<Rank>* ranks) {
  std::vector<Rank> open(ranks->begin(), ranks->end());
  while (!open.empty()) {
    const Rank known = open.back();
    open.pop_back();
    const std::vector<Rank>& its_givers = lacks.at(known);
    for (const auto& [rank, givers] : lacks) {
      const bool connected = Contains(its_givers, rank) || Contains(givers, known);
      if (connected && ranks->insert(rank).second) {
        open.push_back(rank);
      }
    }
  }
}

}  // namespace

void RecordedSlice::Add(RecordedRank recorded) {
  graph::Fragment& fragment = recorded.fragment;
  given_[fragment.rank] = std::move(recorded.values);
  if (!recorded.guessed_from.empty()) {
    guessed_[fragment.rank] = recorded.guessed_from;
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
  if (stopped.values.size() <= known_bytes) {
    stopped.values.clear();  // in the book already
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
    book_ += values;
  }
  given_.clear();
}

// Of stopped ranks, those that were never recorded.
std::set<Rank> RecordedSlice::UnknownGivers() const {
  std::set<Rank> givers;
  for (const auto& [rank, stopped] : stopped_) {
    givers.insert(stopped.guessed_from.begin(), stopped.guessed_from.end());
  }
  std::erase_if(givers, [this](Rank rank) { return told_bytes_.contains(rank); });
  return givers;
}

std::vector<Rank> RecordedSlice::Entangled() const {
  if (!UnknownGivers().empty()) {
    return {};
  }
  Lacks lacks = guessed_;
  for (const auto& [rank, stopped] : stopped_) {
    lacks[rank] = stopped.guessed_from;
  }
  std::set<Rank> entangled = RanksInCircles(lacks);
  std::erase_if(entangled, [&](Rank rank) {
    return !stopped_.contains(rank) || stops_.at(rank) < 2 || rehearsed_.contains(rank);
  });
  AddConnected(lacks, &entangled);
  return {entangled.begin(), entangled.end()};
}

void RecordedSlice::AddRehearsed(const std::vector<Rank>& ranks, std::string_view values) {
  book_ += values;
  for (const Rank rank : ranks) {
    rehearsed_.insert(rank);
    stopped_.erase(rank);
    guessed_.erase(rank);
    std::erase_if(fragments_, [&](const graph::Fragment& known) { return known.rank == rank; });
  }
}

Result<std::vector<Rank>> RecordedSlice::TakeLacking() {
  const std::set<Rank> unknown = UnknownGivers();
  if (!unknown.empty()) {
    return std::vector<Rank>(unknown.begin(), unknown.end());
  }
  std::vector<Rank> again;
  for (const auto& [rank, stopped] : stopped_) {
    if (told_bytes_.at(rank) < book_.size() - stopped.values.size()) {
      again.push_back(rank);
    }
  }
  if (again.empty() && !stopped_.empty()) {
    return stopped_.begin()->second.end;
  }
  for (const Rank rank : again) {
    stopped_.erase(rank);
  }
  return again;
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
