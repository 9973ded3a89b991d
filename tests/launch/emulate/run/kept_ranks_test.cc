// A rank of an earlier run is taken only for the same iterations and values.
#include "launch/emulate/run/kept_ranks.h"

#include <gtest/gtest.h>

#include "launch/emulate/run/messages.h"
#include "tests/support/scratch_folder.h"

namespace prism::launch {
namespace {

TEST(KeptRanks, are_found_for_what_they_were_recorded_for) {
  const ScratchFolder folder;
  Result<KeptRanks> kept = KeptRanks::Open(folder / "out.recorded", {{"option a", "0"}}, Logger());
  ASSERT_TRUE(kept.ok()) << kept.status().message();
  const RecordedLength length = {.steps = 2};
  RecordedRank recorded;
  recorded.fragment.rank = Rank(3);
  kept->BeginRound(length, "values");
  kept->Keep(Rank(3), Encode(recorded));
  ASSERT_TRUE(kept->Write(/*all=*/true).ok());
  EXPECT_TRUE(kept->Find(Rank(3)).has_value());
  EXPECT_FALSE(kept->Find(Rank(4)).has_value());
  RecordedLength steps = length;
  steps.steps = 3;
  RecordedLength iterations = length;
  iterations.iterations = 4;
  RecordedLength chosen = length;
  chosen.chosen.number = 5;
  RecordedLength odd = length;
  odd.odd[0] = 6;
  for (const RecordedLength& other : {steps, iterations, chosen, odd}) {
    kept->BeginRound(other, "values");
    EXPECT_FALSE(kept->Find(Rank(3)).has_value());
  }
  kept->BeginRound(length, "others");
  EXPECT_FALSE(kept->Find(Rank(3)).has_value());
  kept->BeginRound(length, "values");
  EXPECT_TRUE(kept->Find(Rank(3)).has_value());
}

}  // namespace
}  // namespace prism::launch
