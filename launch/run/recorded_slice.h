// What process 0 has of the slice while its rounds are recorded: fragments, and the book of values
// that recorded ranks sent to absent ones (shim/channel/value_book.h). Ranks recorded in a later
// round are given the book as it is by then; in the emulation each rank is given what it was given
// here.
//
// A rank whose program fails after it was given other values in place of an absent rank's, such as
// the shape of a message, is not the last word: the absent ranks are recorded first, then it again.
// If it stops again for want of what ranks send that lack its own values, they are rehearsed
// (run/rehearsal.h) before they are recorded again.
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
};

struct RecordedRank {
  graph::Fragment fragment;
  std::string values;              // that it sent to absent ranks: a part of a value book
  std::vector<Rank> guessed_from;  // absent ranks in whose place it was given others' integers
};

// A rank whose program failed with values that may not be what it would have been given.
struct StoppedRank {
  Rank rank;
  Status end;                      // how it failed
  std::vector<Rank> guessed_from;  // as of a recorded rank
  std::string values;              // that it sent before it was given any of them
};

class RecordedSlice {
 public:
  // `steady_iterations`: for how many iterations after the first steady one rank 0 of a program is
  // recorded.
  explicit RecordedSlice(int32_t steady_iterations) : steady_iterations_(steady_iterations) {}

  // Adds a rank of the current round.
  void Add(RecordedRank recorded);
  void Add(StoppedRank stopped);

  // Ranks of the current round that were added.
  [[nodiscard]] size_t ended_in_round() const { return given_.size(); }

  // All ranks of a round have been added: what they sent is in the book from now on.
  void EndRound();

  // After a round: ranks that stopped again, and can go on only with what another one sends after
  // it has gone on; with those that were given values in place of theirs, or the other way round.
  // Ascending; each stopped rank is the reason once.
  [[nodiscard]] std::vector<Rank> Entangled() const;

  // What these sent while they ran together is in the book from now on. They no longer count as
  // recorded: record them again.
  void AddRehearsed(const std::vector<Rank>& ranks, std::string_view values);

  // After a round: the ranks to record next because of stopped ones, ascending; these are the ones
  // that were guessed, or else stopped ranks for which more is known now. Fails as a stopped rank
  // did if neither exist.
  Result<std::vector<Rank>> TakeLacking();

  // Ranks that were given other values before those of their own root or sender, or of a nearer
  // peer, were known. They no longer count as recorded, and are returned once: record them again
  // with all that is known now.
  std::vector<Rank> TakeToldTooEarly();

  // By rank, ascending after a round.
  [[nodiscard]] const std::vector<graph::Fragment>& fragments() const { return fragments_; }
  std::vector<graph::Fragment> TakeFragments();

  [[nodiscard]] const std::string& book() const { return book_; }

  // How many bytes of the book the rank is given; all if the rank was never recorded.
  [[nodiscard]] uint64_t ValueBytes(Rank rank) const;

  // What rank 0, which comes first, has determined: all others are recorded for as long.
  [[nodiscard]] const RecordedLength& length() const { return length_; }

  // Which iteration of a rank's program was recorded last; none for other ranks.
  [[nodiscard]] std::optional<int32_t> IterationOf(Rank rank) const;

 private:
  [[nodiscard]] std::set<Rank> UnknownGivers() const;
  [[nodiscard]] bool WasToldTooEarly(const graph::Fragment& fragment) const;

  std::vector<graph::Fragment> fragments_;
  std::map<Rank, std::string> given_;          // in the round that runs
  std::map<Rank, std::vector<Rank>> guessed_;  // recorded ones, by what they guessed from
  std::map<Rank, StoppedRank> stopped_;
  std::map<Rank, size_t> stopped_bytes_;  // that were in the book of ranks that stopped
  std::map<Rank, int> stops_;
  std::set<Rank> rehearsed_;
  std::string book_;
  std::map<Rank, uint64_t> told_bytes_;
  std::set<Rank> told_again_;
  std::map<Rank, int32_t> iterations_;
  int32_t steady_iterations_;
  RecordedLength length_;
};

}  // namespace prism::launch
