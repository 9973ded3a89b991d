// prism check of ranks whose threads call others, by their records.
#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "slicer/check/call_recorder.h"
#include "slicer/check/check.h"
#include "tests/slicer/record_script.h"

namespace prism::slicer {
namespace {

// Two CPU groups of all ranks, 7 and 8, whose sums end before the thread goes on.
class Threads {
 public:
  explicit Threads(uint32_t rank) : rank_(rank) { script_.Note("prism:group:600000:0/1/2:"); }

  Threads& On(uint16_t thread) {
    script_.OnThread(thread);
    side_ = thread == 0 ? "" : "side:";
    return *this;
  }
  Threads& Note(const std::string& text) {
    script_.Note("prism:" + text);
    return *this;
  }
  Threads& Sum(int group, int line) {
    script_.Note("prism:line:" + std::to_string(line) + ":main:train.py");
    const std::string channel = std::to_string(group) + ":";
    script_.Note("prism:" + side_ + "cpu:" + channel + "0/1/2:all:all_reduce:-1:0:32:float32");
    script_.Note("prism:" + side_ + "cpu-wait:" + channel +
                 "all:" + std::to_string(++sums_[group]));
    return *this;
  }
  Threads& Sleep(DurationNs duration) {
    channel::Record record = {};
    record.kind = channel::RecordKind::kHostGap;
    record.host_gap.duration_ns = duration;
    script_.Add(record);
    return *this;
  }
  RankCalls Take() {
    CallRecorder recorder{Rank(rank_)};
    for (const ScriptedRecord& each : script_.records()) {
      EXPECT_TRUE(recorder.Consume(each.record, each.payload).ok());
    }
    return recorder.TakeCalls();
  }

 private:
  uint32_t rank_;
  RecordScript script_;
  std::string side_;
  std::map<int, int> sums_;
};

std::vector<RankCalls> Ranks(const std::function<void(Threads&)>& one,
                             const std::function<void(Threads&)>& other) {
  Threads zero(0);
  Threads first(1);
  one(zero);
  other(first);
  return {zero.Take(), first.Take()};
}

void SumOnThread(Threads& threads, int line, bool joins = true) {
  threads.On(0).Note("word:1").On(5).Note("thread:0").Note("heard:1").Sum(8, line);
  threads.Note("word:2").On(0);
  if (joins) {
    threads.Note("heard:2");
  }
}

TEST(CheckThreads, a_thread_that_is_joined_before_what_the_others_wait_for_is_a_circle) {
  const auto before = [](Threads& threads) {
    SumOnThread(threads, 20);
    threads.Sum(7, 30);
  };
  const auto behind = [](Threads& threads) {
    threads.Sum(7, 31);
    SumOnThread(threads, 21);
  };
  EXPECT_TRUE(CheckCalls(Ranks(before, before)).faults.empty());
  EXPECT_TRUE(CheckCalls(Ranks(behind, behind)).faults.empty());
  const CheckResult crossed = CheckCalls(Ranks(before, behind));
  ASSERT_EQ(crossed.faults.size(), 1U);
  EXPECT_EQ(crossed.faults[0].kind, FaultKind::kCycle) << crossed.faults[0].sentence;
  EXPECT_EQ(crossed.faults[0].calls.size(), 2U);
  // It goes on beside the main thread, which does not join it.
  const auto beside = [](Threads& threads) {
    SumOnThread(threads, 20, false);
    threads.Sum(7, 30);
  };
  EXPECT_TRUE(CheckCalls(Ranks(beside, behind)).faults.empty());
}

TEST(CheckThreads, a_thread_that_sleeps_for_too_long_is_waited_for_in_vain) {
  const auto late = [](Threads& threads) {
    threads.Note("word:1").On(5).Note("thread:0").Note("heard:1").Sleep(700 * kNsPerSecond);
    threads.Sum(8, 20);
  };
  const auto usual = [](Threads& threads) { SumOnThread(threads, 20); };
  const CheckResult result = CheckCalls(Ranks(late, usual));
  ASSERT_EQ(result.faults.size(), 1U);
  EXPECT_EQ(result.faults[0].kind, FaultKind::kTimeout);
  EXPECT_EQ(result.faults[0].waiting, std::vector<Rank>{Rank(1)});
  EXPECT_TRUE(CheckCalls(Ranks(late, late)).faults.empty());
}

TEST(CheckThreads, calls_of_two_threads_in_one_group_are_compared_if_their_order_is_no_chance) {
  const auto once_more = [](bool joins, int sums) {
    return [=](Threads& threads) {
      SumOnThread(threads, 20, joins);
      for (int i = 0; i < sums; ++i) {
        threads.Sum(8, 30);
      }
    };
  };
  EXPECT_TRUE(CheckCalls(Ranks(once_more(true, 2), once_more(true, 2))).faults.empty());
  EXPECT_EQ(CheckCalls(Ranks(once_more(true, 2), once_more(true, 1))).faults.size(), 1U);
  const std::vector<RankCalls> by_chance = Ranks(once_more(false, 2), once_more(false, 1));
  EXPECT_TRUE(CheckCalls(by_chance).faults.empty());
  EXPECT_EQ(by_chance[0].assumptions.size(), 1U);
}

TEST(CheckThreads, nobody_waits_for_a_daemon_that_goes_on) {
  const auto beats = [](const char* daemon, int sums) {
    return [=](Threads& threads) {
      threads.Note("word:1").On(5).Note(std::string("thread:") + daemon).Note("heard:1");
      for (int i = 0; i < sums; ++i) {
        threads.Sum(8, 20);
      }
      threads.On(0).Sum(7, 30);
    };
  };
  EXPECT_TRUE(CheckCalls(Ranks(beats("1", 3), beats("1", 5))).faults.empty());
  EXPECT_EQ(CheckCalls(Ranks(beats("0", 3), beats("0", 5))).faults.size(), 1U);
}

}  // namespace
}  // namespace prism::slicer
