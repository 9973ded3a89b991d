// What process 0 has of the slice while rounds of it are recorded: fragments, and the book of
// values that recorded ranks gave to absent ones (shim/channel/value_book.h). Whoever is recorded
// in a later round is given the book as it then is; in the emulation each is given what it was
// given here.
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
  int32_t steps = 1;       // optimizer steps that an iteration holds, as far as is known
  int32_t iterations = 0;  // at least; 0: until two are identical
};

class RecordedSlice {
 public:
  // `steady_iterations`: for how many after its steady one rank 0 of a program is recorded.
  explicit RecordedSlice(int32_t steady_iterations) : steady_iterations_(steady_iterations) {}

  // A rank of the round that runs, and the values that it gave.
  void Add(graph::Fragment fragment, std::string_view values);

  // All ranks of a round have been added: what they gave is in the book from now on.
  void EndRound();

  // Ranks that were given values of a peer's when those of their own root, or of a nearer peer,
  // were not known yet. They are no longer recorded, and are named once: record them with all that
  // is known now.
  std::vector<Rank> TakeToldTooEarly();

  // By rank, ascending after a round.
  [[nodiscard]] const std::vector<graph::Fragment>& fragments() const { return fragments_; }
  std::vector<graph::Fragment> TakeFragments();

  [[nodiscard]] const std::string& book() const { return book_; }

  // Bytes of the book that the rank is given; all of it if the rank was never recorded.
  [[nodiscard]] uint64_t ToldBytes(Rank rank) const;

  // What rank 0, which comes first, has found out: all others are recorded as long as it.
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
