#include "graph/job/offload.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace prism::graph {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(Offload, is_read_as_it_is_written) {
  for (const Offload offload :
       {Offload::kNone, Offload::kOptimizer, Offload::kActivations, Offload::kAll}) {
    EXPECT_EQ(OffloadNamed(OffloadName(offload)), offload);
  }
  EXPECT_FALSE(OffloadNamed("gradients").has_value());
}

// Launches of an update, whose states are in host memory when it begins.
TEST(Offload, states_come_ahead_of_their_update) {
  const std::vector<PieceTouch> update = {{0, true, true}, {1, true, true}, {2, true, true}};
  EXPECT_THAT(FetchesOf(update, 0), ElementsAre(ElementsAre(0), ElementsAre(1), ElementsAre(2)));
  EXPECT_THAT(FetchesOf(update, 1), ElementsAre(ElementsAre(0, 1), ElementsAre(2), IsEmpty()));
  EXPECT_THAT(FetchesOf(update, 9), ElementsAre(ElementsAre(0, 1, 2), IsEmpty(), IsEmpty()));
}

// Forward of two layers, backward of both, then the same for the next micro-batch: what was not
// copied out yet cannot come back.
TEST(Offload, activations_come_back_once_they_have_left) {
  const std::vector<PieceTouch> passes = {{1, false, true}, {0, false, true}, {0, true, false},
                                          {1, true, false}, {3, false, true}, {2, false, true},
                                          {2, true, false}, {3, true, false}};
  const auto fetches = FetchesOf(passes, 2);
  EXPECT_THAT(fetches[2], ElementsAre(0, 1));
  EXPECT_THAT(fetches[3], IsEmpty());
  EXPECT_THAT(fetches[6], ElementsAre(2, 3));
  for (const size_t forward : {0, 1, 4, 5}) {
    EXPECT_THAT(fetches[forward], IsEmpty());
  }
}

}  // namespace
}  // namespace prism::graph
