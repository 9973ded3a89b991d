// What process 0 has of the slice while its rounds are recorded: fragments, and the book of values
// that recorded ranks sent to absent ones (shim/channel/value_book.h). Ranks recorded in a later
// round are given the book as it is by then; in the emulation each rank is given what it was given
// here.
//
// What a rank sends depends on what it received, so recording is a fixed point over the book. A
// value is speculative for its consumer if it is another rank's in place of the producer's, or if
// the producer had received such a value before it sent this one; a recording that took another
// rank's value is stale once the book has grown. A consumer that fails on speculative values, such
// as the shape of a message, is recorded again after their producers. Where producers wait for each
// other's values, or a consumer fails although nothing more can be learned in order, the whole
// dependency cycle is recorded together (run/co_recording.h), and each of its ranks once more by
// itself. A rank is misled if others, recorded later, contributed other integers to a collective
// than it did itself: sizes and numbers of calls may follow from them, so it is recorded again
// before it is compared with others, and once more when all are known. It ends: each rank is
// recorded again at most once for each of these reasons, a stopped one only if the book has grown,
// and it adds to the book only when it gets further than before.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "graph/base/ids.h"
#include "graph/base/status.h"
#include "graph/fragment.h"
#include "slicer/check/calls.h"
#include "slicer/record/iteration_sequence.h"
#include "slicer/record/steady_search.h"

namespace prism::launch {

// How long ranks are recorded.
struct RecordedLength {
  int32_t steps = 1;       // optimizer steps per iteration, as far as is known
  int32_t iterations = 0;  // at least that many; 0: until two are identical
  slicer::ChosenIteration chosen = {};
  slicer::OddNumbers odd = slicer::kNoOdd;  // also these iterations, if the program runs that many

  bool operator==(const RecordedLength&) const = default;
};

struct RecordedRank {
  graph::Fragment fragment;
  std::vector<graph::Fragment> odd;        // slicer::Recorder::OddFragments
  std::vector<slicer::OddKind> odd_kinds;  // of rank 0 of a program, as the next
  int32_t seen = 0;                        // slicer::OddIterations
  std::string values;                      // that it sent to absent ranks: a part of a value book
  bool guessed = false;                    // RecordedProcess's, as the next
  std::vector<Rank> speculative_producers;
  std::optional<slicer::RankCalls> calls = {};  // what it did with other ranks, for a check
};

// A rank whose program failed on speculative values.
struct StoppedRank {
  Rank rank;
  Status end;  // how it failed
  std::vector<Rank> speculative_producers;
  std::string values;  // that it sent before it was given any of them
};

class RecordedSlice {
 public:
  // `steady_iterations`: for how many iterations after the first steady one rank 0 of a program is
  // recorded.
  explicit RecordedSlice(int32_t steady_iterations) : steady_iterations_(steady_iterations) {}

  // Adds a rank of the current round.
  void Add(RecordedRank recorded);
  void Add(StoppedRank stopped);

  // It was added in a round that has ended.
  [[nodiscard]] bool HasRun(Rank rank) const;

  // Ranks of the current round that were added.
  [[nodiscard]] size_t ended_in_round() const { return ended_in_round_; }

  // All ranks of a round have been added: what they sent is in the book from now on.
  void EndRound();

  // After a round: a rank that stopped again and depends on itself through its speculative
  // producers, or a stopped one for which there is nothing new; with its speculative producers, and
  // theirs. Ascending; none if there is no such rank that was not recorded together before.
  [[nodiscard]] std::vector<Rank> DependencyCycle() const;

  // What these sent while they were recorded together is in the book from now on. They no longer
  // count as recorded: record each by itself.
  void AddCoRecorded(const std::vector<Rank>& ranks, std::string_view values);

  // After a round: the ranks to record next, ascending. If any have stopped: their producers that
  // were never recorded, or else those stopped ranks for which there is something new; fails as a
  // stopped rank did if neither exist. If none have: those that were not recorded for as long as
  // rank 0, which came later.
  Result<std::vector<Rank>> TakeLacking();

  // Stale ranks: those that took other values because those of their own root or sender, or of a
  // nearer peer, were not known; if there are none, those whose speculative producers have settled.
  // They no longer count as recorded, and are returned once for either reason: record them again
  // with the book as it is now.
  std::vector<Rank> TakeStale();

  // Misled ranks: others contributed something else than they did to the same reduction or
  // gathering of integers, and were recorded later. They no longer count as recorded, and each is
  // returned that many times at most.
  std::vector<Rank> TakeMisled(int most_times);

  // By rank, ascending after a round.
  [[nodiscard]] const std::vector<graph::Fragment>& fragments() const { return fragments_; }
  std::vector<graph::Fragment> TakeFragments();

  // Odd iterations: their kinds, among how many iterations, and those recorded of each rank.
  [[nodiscard]] const std::vector<slicer::OddKind>& odd_kinds() const { return odd_kinds_; }
  [[nodiscard]] int32_t seen() const { return seen_; }
  [[nodiscard]] const std::map<Rank, std::vector<graph::Fragment>>& odd() const { return odd_; }

  [[nodiscard]] const std::string& book() const { return book_; }

  // How many bytes of the book the rank is given; all if the rank was never recorded.
  [[nodiscard]] uint64_t ValueBytes(Rank rank) const;

  // What rank 0, which comes first unless it stops, has determined: all others are recorded for as
  // long.
  [[nodiscard]] const RecordedLength& length() const { return length_; }

  // Which iteration of a rank's program was recorded last; none for other ranks.
  [[nodiscard]] std::optional<int32_t> IterationOf(Rank rank) const;

 private:
  // What is known of one rank.
  struct Known {
    std::optional<std::string> sent;          // in the round that runs
    std::optional<StoppedRank> stopped;       // how it ended last, unless it was recorded
    int stops = 0;                            // so far
    size_t nonspeculative_bytes = 0;          // the most that it had sent before speculative values
    std::vector<Rank> speculative_producers;  // when it ran last
    bool guessed = false;                     // was recorded with others' integers
    bool co_recorded = false;
    bool again_as_stale = false;         // was returned by TakeStale for the first reason
    bool again_as_settled = false;       // and for the second
    int again_as_misled = 0;             // how often TakeMisled returned it
    std::optional<uint64_t> book_bytes;  // how much of the book it was given last
    RecordedLength length;               // how long it was recorded last
    std::optional<int32_t> iteration;    // that was recorded last
  };

  [[nodiscard]] std::set<Rank> MissingProducers() const;
  [[nodiscard]] std::vector<Rank> StoppedWithNewValues() const;
  [[nodiscard]] bool IsStale(const graph::Fragment& fragment) const;
  [[nodiscard]] bool HasSettledProducers(Rank rank) const;
  [[nodiscard]] bool IsOfOtherLength(const graph::Fragment& fragment) const;
  [[nodiscard]] std::map<Rank, std::vector<Rank>> ProducersOf() const;
  void DropFragments(const std::vector<Rank>& ascending);
  void TakeOdd(RecordedRank* rank_0);

  std::vector<graph::Fragment> fragments_;
  std::map<Rank, std::vector<graph::Fragment>> odd_;
  std::vector<int32_t> odd_numbers_;  // graph::Fragment's, of rank 0
  std::vector<graph::Warning> odd_warnings_;
  std::vector<slicer::OddKind> odd_kinds_;
  int32_t seen_ = 0;
  std::map<Rank, Known> known_;
  size_t ended_in_round_ = 0;
  std::string book_;
  int32_t steady_iterations_;
  RecordedLength length_;
  RecordedLength round_length_;  // at the beginning of the round that runs
};

}  // namespace prism::launch
