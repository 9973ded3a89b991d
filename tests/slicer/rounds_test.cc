// slicer/record/rounds.h: rounds that need not run are recorded as if they had.
#include <algorithm>
#include <string>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/slicer/script_recording.h"

namespace prism::slicer {
namespace {

using channel::RecordKind;

// What one of the rounds does besides, or differently.
enum class Oddity {
  kNone,
  kOtherKernelEachRound,
  kSegments,
  kGrows,
  kWaitsForFirst,
  kCounts,
};

// Three iterations of `rounds` rounds and a last one, in each: a range with its number, a wait for
// what the round before recorded, an event from a pool of three, a sum of the backward thread, a
// message, a block that lives until the next round.
class Program {
 public:
  Program(int rounds, bool skips, Oddity oddity)
      : rounds_(rounds), skips_(skips), oddity_(oddity), recorder_({.rank = Rank(0)}) {
    script_.CommInit(3, "dp", 4, 0, 2);
    script_.CommInit(4, "pp", 2, 0, 1);
  }

  graph::Fragment Record() {
    for (int iteration = 0; iteration < 3; ++iteration) {
      const int begin = run_;
      script_.Marker("iteration", true);
      script_.Kernel("fill", 0);
      script_.Event(RecordKind::kEventRecord, kFirst, 0);
      for (int number = 0; number <= rounds_; ++number) {
        Feed();
        if (skips_) {
          const Result<int32_t> skipped = recorder_.EndRound(rounds_ - number);
          EXPECT_TRUE(skipped.ok());
          number += *skipped;
        }
        RunRound(number);
      }
      most_run_ = std::max(most_run_, run_ - begin);
      script_.Event(RecordKind::kEventWait, pool(run_ - 2), 2);
      script_.Event(RecordKind::kEventWait, pool(run_ - 1), 2);
      script_.Event(RecordKind::kEventWait, kFirst, 2);
      script_.Marker("iteration", false);
    }
    Feed();
    Result<graph::Fragment> fragment = recorder_.Finish();
    EXPECT_TRUE(fragment.ok()) << fragment.status().message();
    fragment->memory.layout_hash = 0;  // of what has run
    EXPECT_EQ(std::exchange(fragment->rounds_left_out, 0), rounds_ + 1 - most_run_);
    return *fragment;
  }

  [[nodiscard]] int run() const { return run_; }

 private:
  static constexpr uint32_t kFirst = 9;

  static uint32_t pool(int run) { return 10 + static_cast<uint32_t>(run) % 3; }

  void Feed() {
    for (; fed_ < script_.records().size(); ++fed_) {
      const ScriptedRecord& scripted = script_.records()[fed_];
      ASSERT_TRUE(recorder_.Consume(scripted.record, scripted.payload).ok());
    }
  }

  void RunRound(int number) {
    script_.Marker("micro-batch " + std::to_string(number), true);
    script_.Matmul(8);
    if (oddity_ == Oddity::kOtherKernelEachRound) {
      script_.Kernel("k" + std::string(static_cast<size_t>(number % 3) + 1, 'x'));
    }
    script_.Event(RecordKind::kEventWait,
                  oddity_ == Oddity::kWaitsForFirst ? kFirst : pool(run_ - 1), 1);
    script_.Event(RecordKind::kEventRecord, pool(run_), 0);
    script_.Block(true, 0x1000 + 0x100 * static_cast<uint64_t>(run_), 64);
    if (run_ > 0 && oddity_ != Oddity::kGrows) {
      script_.Block(false, 0x1000 + 0x100 * static_cast<uint64_t>(run_ - 1), 64);
    }
    if (oddity_ == Oddity::kSegments) {
      script_.Segment(512, 0x100000 + 512 * static_cast<uint64_t>(run_));
    }
    if (oddity_ == Oddity::kCounts) {
      channel::Record record = {};
      record.kind = RecordKind::kCounter;
      record.counter.name = script_.Define(channel::Table::kCounterName, "guesses");
      record.counter.count = run_ + 1;
      script_.Add(record);
    }
    script_.Transfer(4, 1, true, 32, 3);
    script_.GroupEnd();
    script_.OnThread(1);
    script_.InBackward(true);
    script_.Matmul(16);
    script_.AllReduce(3, 128, 1);
    script_.InBackward(false);
    script_.OnThread(0);
    script_.Marker("micro-batch " + std::to_string(number), false);
    ++run_;
  }

  int rounds_;
  bool skips_;
  Oddity oddity_;
  Recorder recorder_;
  RecordScript script_;
  size_t fed_ = 0;
  int run_ = 0;
  int most_run_ = 0;  // in an iteration
};

TEST(Rounds, that_are_left_out_are_recorded_as_if_they_had_run) {
  for (const int rounds : {1, 2, 3, 4, 9, 40}) {
    SCOPED_TRACE(rounds);
    Program whole(rounds, false, Oddity::kNone);
    Program short_one(rounds, true, Oddity::kNone);
    EXPECT_TRUE(short_one.Record() == whole.Record());
    EXPECT_EQ(whole.run(), 3 * (rounds + 1));
    EXPECT_LE(short_one.run(), 3 * 4);
  }
}

TEST(Rounds, that_differ_or_do_something_once_all_run) {
  for (const Oddity oddity : {Oddity::kOtherKernelEachRound, Oddity::kSegments, Oddity::kGrows,
                              Oddity::kWaitsForFirst, Oddity::kCounts}) {
    SCOPED_TRACE(static_cast<int>(oddity));
    Program whole(9, false, oddity);
    Program asking(9, true, oddity);
    EXPECT_TRUE(asking.Record() == whole.Record());
    EXPECT_EQ(asking.run(), whole.run());
  }
}

TEST(Rounds, numbers_in_names_go_on_by_their_difference) {
  EXPECT_EQ(LaterName("micro-batch 4", "micro-batch 6", 3), "micro-batch 12");
  EXPECT_EQ(LaterName("forward", "forward", 3), "forward");
  EXPECT_EQ(LaterName("layer 9", "layer 10", 1), "layer 11");
  EXPECT_EQ(LaterName("layer 9", "chunk 10", 1), "");
  EXPECT_EQ(LaterName("forward", "forward 1", 1), "");
}

}  // namespace
}  // namespace prism::slicer
