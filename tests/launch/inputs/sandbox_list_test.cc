#include "launch/inputs/sandbox_list.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace prism::launch {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// tp 2, pp 4, dp 2: stage K begins at rank 4 K.
graph::JobSpec SmallJob() {
  graph::JobSpec job;
  job.parallel.tp = 2;
  job.parallel.pp = 4;
  job.parallel.dp = 2;
  return job;
}

Result<std::vector<Rank>> Resolve(const std::string& list) {
  const graph::JobSpec job = SmallJob();
  PRISM_ASSIGN_OR_RETURN(const slicer::SlicePlan plan, slicer::MakePlan(job, {}));
  return ResolveRankList("--sandbox-ranks", list, job, plan);
}

std::vector<uint32_t> Numbers(const std::string& list) {
  const Result<std::vector<Rank>> ranks = Resolve(list);
  EXPECT_TRUE(ranks.ok()) << ranks.status().message();
  std::vector<uint32_t> numbers;
  for (const Rank rank : *ranks) {
    numbers.push_back(rank.value());
  }
  return numbers;
}

TEST(SandboxList, auto_is_the_lowest_rank_of_first_middle_and_last_stage) {
  EXPECT_THAT(Numbers("auto"), ElementsAre(0, 8, 12));
}

TEST(SandboxList, words_numbers_and_ranges_come_out_ascending_and_once) {
  EXPECT_THAT(Numbers("last,first,3-5,4"), ElementsAre(0, 3, 4, 5, 15));
  EXPECT_THAT(Numbers("stage:3,stage:1"), ElementsAre(4, 12));
  EXPECT_THAT(Numbers("role:stage-2"), ElementsAre(8));
  EXPECT_THAT(Numbers("none"), ElementsAre());
}

TEST(SandboxList, what_is_no_rank_is_refused_with_the_part) {
  for (const std::string list :
       {"16", "5-3", "", "0,", "stage:4", "role:none", "none,0", "first-last", "-1"}) {
    const Result<std::vector<Rank>> ranks = Resolve(list);
    ASSERT_FALSE(ranks.ok()) << list;
    EXPECT_EQ(ranks.status().code(), StatusCode::kInvalidArgument) << list;
    EXPECT_THAT(ranks.status().message(), HasSubstr("--sandbox-ranks")) << list;
  }
  EXPECT_THAT(Resolve("16").status().message(), HasSubstr("whose last rank is 15"));
}

}  // namespace
}  // namespace prism::launch
