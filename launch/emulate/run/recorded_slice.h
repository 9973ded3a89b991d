// What process 0 has of the slice while its rounds are recorded: fragments, and the book of values
// that recorded ranks sent to absent ones (shim/channel/value_book.h). Ranks recorded in a later
// round are given the book as it is by then; in the emulation each rank is given what it was given
// here.
//
// A rank whose program fails after it was given doubtful values in place of an absent rank's, such
// as the shape of a message, is not the last word: the absent ranks are recorded first, then it
// again. If it stops again for want of what ranks send that lack its own values, or nothing more is
// known by then, they are rehearsed (run/rehearsal.h) before they are recorded again.
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
#include "slicer/record/steady_search.h"

namespace prism::launch {

// How long ranks are recorded.
struct RecordedLength {
  int32_t steps = 1;       // optimizer steps per iteration, as far as is known
  int32_t iterations = 0;  // at least that many; 0: until two are identical
  slicer::ChosenIteration chosen = {};

  bool operator==(const RecordedLength&) const = default;
};

struct RecordedRank {
  graph::Fragment fragment;
  std::string values;    // that it sent to absent ranks: a part of a value book
  bool guessed = false;  // RecordedProcess's, as the next
  std::vector<Rank> doubtful_givers;
};

// A rank whose program failed with values that may not be what it would have been given.
struct StoppedRank {
  Rank rank;
  Status end;  // how it failed
  std::vector<Rank> doubtful_givers;
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

  // After a round: a rank that stopped again, and can go on only with what another one sends after
  // it has gone on; or a stopped one for which no more is known now; with its doubtful givers, and
  // theirs. Ascending; none if there is no such rank that was not rehearsed before.
  [[nodiscard]] std::vector<Rank> Entangled() const;

  // What these sent while they ran together is in the book from now on. They no longer count as
  // recorded: record them again.
  void AddRehearsed(const std::vector<Rank>& ranks, std::string_view values);

  // After a round: the ranks to record next, ascending. Because of stopped ones these are the ones
  // that were guessed, or else stopped ranks for which more is known now; fails as a stopped rank
  // did if neither exist. Without stopped ranks, those that were not recorded for as long as rank
  // 0, which came later.
  Result<std::vector<Rank>> TakeLacking();

  // Ranks that were given other values before those of their own root or sender, or of a nearer
  // peer, were known; if there are none, those with doubtful givers that are no longer. They no
  // longer count as recorded, and are returned once for either reason: record them again with all
  // that is known now.
  std::vector<Rank> TakeToldTooEarly();

  // By rank, ascending after a round.
  [[nodiscard]] const std::vector<graph::Fragment>& fragments() const { return fragments_; }
  std::vector<graph::Fragment> TakeFragments();

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
    std::optional<std::string> sent;     // in the round that runs
    std::optional<StoppedRank> stopped;  // how it ended last, unless it was recorded
    int stops = 0;                       // so far
    size_t certain_bytes = 0;            // the most that it had sent when it stopped
    std::vector<Rank> doubtful_givers;   // when it ran last
    bool guessed = false;                // was recorded with others' integers
    bool rehearsed = false;
    bool told_again = false;             // recorded again because of `guessed`
    bool told_certain = false;           // recorded again because its givers are certain
    std::optional<uint64_t> told_bytes;  // how much of the book it was given last
    RecordedLength told_length;          // how long it was recorded last
    std::optional<int32_t> iteration;    // that was recorded last
  };

  [[nodiscard]] std::set<Rank> UnknownGivers() const;
  [[nodiscard]] std::vector<Rank> StoppedThatKnowMore() const;
  [[nodiscard]] bool WasToldTooEarly(const graph::Fragment& fragment) const;
  [[nodiscard]] bool HasCertainGivers(Rank rank) const;
  [[nodiscard]] bool IsOfOtherLength(const graph::Fragment& fragment) const;
  [[nodiscard]] std::map<Rank, std::vector<Rank>> Doubts() const;
  void DropFragments(const std::vector<Rank>& ascending);

  std::vector<graph::Fragment> fragments_;
  std::map<Rank, Known> known_;
  size_t ended_in_round_ = 0;
  std::string book_;
  int32_t steady_iterations_;
  RecordedLength length_;
  RecordedLength round_length_;  // at the beginning of the round that runs
};

}  // namespace prism::launch
