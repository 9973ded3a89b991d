// What process 0 has of the slice while its rounds are recorded: fragments, and the book of values
// that recorded ranks sent to absent ones (shim/channel/value_book.h). Ranks recorded in a later
// round are given the book as it is by then; in the emulation each rank is given what it was given
// here.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "graph/base/ids.h"
#include "graph/fragment.h"

namespace prism::launch {

// How long ranks are recorded.
struct RecordedLength {
  int32_t steps = 1;       // optimizer steps per iteration, as far as is known
  int32_t iterations = 0;  // at least that many; 0: until two are identical
};

class RecordedSlice {
 public:
  // `steady_iterations`: for how many iterations after the first steady one rank 0 of a program is
  // recorded.
  explicit RecordedSlice(int32_t steady_iterations) : steady_iterations_(steady_iterations) {}

  // Adds a rank of the current round, and the values that it sent.
  void Add(graph::Fragment fragment, std::string_view values);

  // All ranks of a round have been added: what they sent is in the book from now on.
  void EndRound();

  // Ranks that were given values from a peer before those of their own root, or of a nearer peer,
  // were known. They no longer count as recorded, and are returned once: record them again with all
  // that is known now.
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
  std::vector<graph::Fragment> fragments_;
  std::map<Rank, std::string> given_;  // in the round that runs
  std::string book_;
  std::map<Rank, uint64_t> told_bytes_;
  std::set<Rank> told_again_;
  std::map<Rank, int32_t> iterations_;
  int32_t steady_iterations_;
  RecordedLength length_;
};

}  // namespace prism::launch
