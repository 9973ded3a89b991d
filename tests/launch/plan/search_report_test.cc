// The text of a search's report.
#include "launch/plan/search_report.h"

#include <algorithm>
#include <mutex>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launch/plan/job_list.h"
#include "tests/launch/plan/small_search.h"

namespace prism::launch {
namespace {

using ::testing::HasSubstr;

// If no plan meets a budget or deadline, the report says how far off they are.
TEST(Search, tells_the_least_of_what_it_rules_out) {
  Result<MpiSession> session = MpiSession::Start();
  ASSERT_TRUE(session.ok());
  const PlanEvaluator evaluator = *PlanEvaluator::Create(SmallProblem("megatron-core"), "");
  SearchOptions options;
  options.choices.gpus = {16};
  options.choices.tp = options.choices.cp = options.choices.vpp = {1};
  options.choices.micro_batch_sizes = {2};
  options.top = 1;
  const SearchResult free = *Search(evaluator, options, *session);
  ASSERT_FALSE(free.best.empty());
  options.given = {free.best.front().plan};
  options.deadline_days = free.best.front().cost.days / 1000;
  const SearchResult late = *Search(evaluator, options, *session);
  EXPECT_TRUE(late.best.empty());
  ASSERT_TRUE(late.ruled_out.days.least.has_value());
  EXPECT_LE(*late.ruled_out.days.least, free.best.front().cost.days);
  EXPECT_GT(*late.ruled_out.days.least, free.best.front().cost.days / 3);
  EXPECT_TRUE(late.given.front().over_deadline);
  EXPECT_FALSE(late.given.front().over_budget);
  EXPECT_THAT(SearchText(evaluator, options, late), HasSubstr("(past the deadline)"));
  options.deadline_days.reset();
  options.budget_gpu_hours = 1e-3;
  const SearchResult dear = *Search(evaluator, options, *session);
  ASSERT_TRUE(dear.ruled_out.gpu_hours.least.has_value());
  EXPECT_LE(*dear.ruled_out.gpu_hours.least, free.best.front().cost.gpu_hours);
  EXPECT_EQ(dear.ruled_out.usd.plans, 0);
  EXPECT_TRUE(dear.given.front().over_budget);
  EXPECT_THAT(SearchText(evaluator, options, dear), HasSubstr("over the GPU-hours"));
}

// Every search for a number of GPUs of a job is a part of the whole.
TEST(Search, jobs_with_deadlines_tell_their_progress) {
  Result<MpiSession> session = MpiSession::Start();
  ASSERT_TRUE(session.ok());
  SearchOptions options;
  options.choices.gpus = {16};
  options.choices.tp = options.choices.cp = options.choices.pp = options.choices.vpp = {1};
  options.choices.micro_batch_sizes = {2};
  std::vector<double> shares;
  std::mutex mutex;
  options.on_progress = [&](double share) {
    const std::lock_guard<std::mutex> lock(mutex);
    shares.push_back(share);
  };
  const ListedJob job = {"job", SmallProblem("megatron-core"), 1000, {8, 16}};
  const Result<JobsAnswer> answer = AllotJobs({job, job}, "", options, *session);
  ASSERT_TRUE(answer.ok()) << answer.status().message();
  ASSERT_GE(shares.size(), 4U);
  EXPECT_TRUE(std::ranges::is_sorted(shares));
  EXPECT_LE(shares.front(), 0.25);
  EXPECT_EQ(shares.back(), 1);
}

}  // namespace
}  // namespace prism::launch
