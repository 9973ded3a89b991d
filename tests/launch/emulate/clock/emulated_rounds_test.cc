// launch/emulate/clock/emulated_rounds.h: rounds that a sandbox rank leaves out give the ops that
// they would have had.
#include "launch/emulate/clock/emulated_rounds.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/slicer/record_script.h"

namespace prism::launch {
namespace {

using channel::RecordKind;
using slicer::OpStream;
using slicer::PlacedOp;

// A warm-up iteration and two more, of nine rounds each: a product, an event for the next round, a
// message.
class SandboxRank {
 public:
  SandboxRank(int32_t left_out, bool differs) : differs_(differs), rounds_(left_out) {
    script_.CommInit(4, "pp", 2, 0, 1);
  }

  Status Run() {
    for (int iteration = 0; iteration < 3; ++iteration) {
      script_.Marker("iteration", true);
      for (int number = 0; number < kRounds; ++number) {
        PRISM_RETURN_IF_ERROR(Feed());
        PRISM_ASSIGN_OR_RETURN(const EmulatedRounds::LeftOut left_out,
                               rounds_.End(kRounds - 1 - number, 100 * runs_, stream_));
        Append(left_out.ops);
        cost_ns_ += left_out.cost_ns;
        number += left_out.rounds;
        RunRound();
      }
      script_.Marker("iteration", false);
    }
    return Feed();
  }

  static constexpr int kRounds = 9;
  std::vector<std::string> ops;
  int64_t runs() const { return runs_; }
  DurationNs cost_ns() const { return cost_ns_; }

 private:
  Status Feed() {
    for (; fed_ < script_.records().size(); ++fed_) {
      const slicer::ScriptedRecord& scripted = script_.records()[fed_];
      PRISM_ASSIGN_OR_RETURN(const auto placed, stream_.Push(scripted.record, scripted.payload));
      for (const PlacedOp& op : placed) {
        rounds_.Keep(op);
      }
      Append(placed);
    }
    return OkStatus();
  }

  void Append(std::span<const PlacedOp> placed) {
    for (const PlacedOp& op : placed) {
      ops.push_back(std::to_string(op.place.iteration) + ":" + std::to_string(op.place.index) +
                    " kind " + std::to_string(static_cast<int>(op.op.kind)) + " after " +
                    std::to_string(op.op.dep) + " what " + std::to_string(op.op.signature));
    }
  }

  void RunRound() {
    script_.Matmul(differs_ ? 8 + runs_ : 8);
    script_.Event(RecordKind::kEventWait, Event(runs_ - 1), 1);
    script_.Event(RecordKind::kEventRecord, Event(runs_), 0);
    script_.Transfer(4, 1, true, 32, 3);
    script_.GroupEnd();
    ++runs_;
  }

  static uint32_t Event(int32_t run) { return 10 + static_cast<uint32_t>(run) % 3; }

  bool differs_;
  slicer::RecordScript script_;
  OpStream stream_{Rank(0), 1};
  EmulatedRounds rounds_;
  size_t fed_ = 0;
  int32_t runs_ = 0;
  DurationNs cost_ns_ = 0;
};

TEST(EmulatedRounds, give_the_ops_that_they_would_have_had) {
  SandboxRank whole(0, false);
  ASSERT_TRUE(whole.Run().ok());
  for (const int32_t count : {1, 3, 5}) {
    SCOPED_TRACE(count);
    SandboxRank rank(count, false);
    const Status status = rank.Run();
    ASSERT_TRUE(status.ok()) << status.message();
    EXPECT_THAT(rank.ops, testing::ElementsAreArray(whole.ops));
    // The graph's first iteration runs all.
    EXPECT_EQ(rank.runs(), 3 * SandboxRank::kRounds - 2 * count);
    EXPECT_EQ(rank.cost_ns(), 2 * count * 100);
  }
}

TEST(EmulatedRounds, that_differ_end_the_run) {
  SandboxRank rank(3, true);
  EXPECT_THAT(rank.Run().message(), testing::HasSubstr("micro-batches differ"));
}

}  // namespace
}  // namespace prism::launch
