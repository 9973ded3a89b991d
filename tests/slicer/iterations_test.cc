// What slicer/record/recorder.h takes for an iteration, and for one that differs from the others.
#include <algorithm>
#include <optional>
#include <random>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/slicer/script_recording.h"

namespace prism::slicer {
namespace {

using channel::RecordKind;
using graph::OpKind;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// What a Python program sends: no marker of its own, two optimizers, one after the other.
void AddTraining(RecordScript* script, int32_t size, bool logs = false) {
  script->Matmul(size);
  if (logs) {
    script->Kernel("mean", 0);
  }
  for (const char* step : {"Optimizer.step#AdamW.step", "Optimizer.step#Muon.step"}) {
    script->Marker(step, true);
    script->Matmul(8);
    script->Marker(step, false);
    script->Kernel("copy", 0);
  }
}

TEST(Iterations, an_optimizer_step_after_training_begins_an_iteration) {
  RecordScript script;
  script.Marker("warm-up", true);
  for (const int32_t size : {16, 16, 64, 64, 64, 64}) {
    AddTraining(&script, size);
  }
  const Result<graph::Fragment> fragment = RecordAll(script, 0, 0);
  ASSERT_TRUE(fragment.ok()) << fragment.status().message();
  EXPECT_EQ(fragment->warmup_iterations, 1) << "the first trains with another size";
  EXPECT_EQ(fragment->iterations, 5);
  EXPECT_THAT(fragment->iteration_begin, HasSubstr("Optimizer.step#AdamW.step"));
  EXPECT_THAT(fragment->program.kind,
              ElementsAre(OpKind::kMarker, OpKind::kMarker, OpKind::kKernel, OpKind::kMarker,
                          OpKind::kKernel, OpKind::kMarker, OpKind::kKernel, OpKind::kMarker,
                          OpKind::kKernel, OpKind::kKernel, OpKind::kMarker));
}

TEST(Iterations, a_step_that_runs_the_passes_itself_begins_an_iteration) {
  RecordScript script;
  for (int i = 0; i < 4; ++i) {
    script.Marker("Optimizer.step#AdamW.step", true);
    script.Matmul(16);
    script.OnThread(3);  // the backward pass, which autograd runs
    script.Matmul(16);
    script.OnThread(0);
    script.Marker("Optimizer.step#AdamW.step", false);
  }
  const Result<graph::Fragment> fragment = RecordAll(script, 0, 0);
  ASSERT_TRUE(fragment.ok()) << fragment.status().message();
  EXPECT_EQ(fragment->iterations, 3) << "the last has no step behind it";
}

// The two networks of a GAN; the first iteration of each is warm-up.
RecordScript StepsThatTakeTurns(int pairs) {
  RecordScript script;
  for (int i = 0; i < 2 * pairs; ++i) {
    script.Matmul(i < 2 ? 8 : i % 2 == 0 ? 16 : 32);
    script.Marker("Optimizer.step#Adam.step", true);
    script.Marker("Optimizer.step#Adam.step", false);
  }
  return script;
}

TEST(Iterations, steps_that_take_turns_are_found_out_and_make_one_iteration) {
  const RecordScript script = StepsThatTakeTurns(5);
  Recorder single({.rank = Rank(0), .warmup_iterations = 0});
  ASSERT_TRUE(Feed(script, &single).ok());
  EXPECT_FALSE(single.Finish().ok());
  EXPECT_EQ(single.period(), 2);

  Recorder pairs({.rank = Rank(0), .warmup_iterations = 0, .steps_per_iteration = 2});
  ASSERT_TRUE(Feed(script, &pairs).ok());
  const Result<graph::Fragment> fragment = pairs.Finish();
  ASSERT_TRUE(fragment.ok()) << fragment.status().message();
  EXPECT_EQ(fragment->steps_per_iteration, 2);
  EXPECT_EQ(fragment->warmup_iterations, 1);
  EXPECT_EQ(fragment->iteration_begin, "one in 2 of the ranges \"Optimizer.step#Adam.step\"");
}

// Iterations by their communication, in megabytes.
RecordScript Communicating(const std::vector<int>& megabytes) {
  RecordScript script;
  script.CommInit(1, "default_pg", 8, 0, 1);
  for (const int size : megabytes) {
    script.Matmul(16);
    script.AllReduce(1, size << 20, 1);
    script.Marker("Optimizer.step#AdamW.step", true);
    script.Marker("Optimizer.step#AdamW.step", false);
  }
  return script;
}

// As batch lengths are.
TEST(Iterations, what_is_drawn_at_random_has_no_period) {
  for (uint32_t seed = 1; seed <= 50; ++seed) {
    std::minstd_rand draw(seed);
    std::vector<int> sizes(100);
    for (int& size : sizes) {
      size = draw() / 64 % 4 == 0 ? 8 : 1;
    }
    const RecordScript script = Communicating(sizes);
    Recorder recorder({.rank = Rank(0), .warmup_iterations = 0, .steady_iterations = 3});
    for (const ScriptedRecord& scripted : script.records()) {
      ASSERT_TRUE(recorder.Consume(scripted.record, scripted.payload).ok());
      if (recorder.has_looked_for_period()) {
        break;
      }
    }
    EXPECT_EQ(recorder.period(), std::nullopt) << seed;
    EXPECT_LE(recorder.iterations(), 100);
  }
}

TEST(Iterations, odd_ones_are_counted_and_the_most_frequent_kind_is_named) {
  const Result<graph::Fragment> fragment =
      RecordAll(Communicating({1, 1, 1, 8, 8, 2, 8, 8, 8, 1, 1}), 0, 0);
  ASSERT_TRUE(fragment.ok()) << fragment.status().message();
  EXPECT_EQ(fragment->iterations, 10);
  EXPECT_THAT(fragment->odd_iterations, ElementsAre(2, 3, 4, 5, 6, 7));
  ASSERT_EQ(fragment->warnings.size(), 1U);
  EXPECT_EQ(fragment->warnings[0].count, 6);
  EXPECT_THAT(fragment->warnings[0].example, HasSubstr("6 of the"));
}

TEST(Iterations, steps_that_never_repeat_have_no_period) {
  RecordScript script;
  for (int i = 0; i < 16; ++i) {
    script.Matmul(16 + i);
    script.Marker("Optimizer.step#Adam.step", true);
    script.Marker("Optimizer.step#Adam.step", false);
  }
  Recorder recorder({.rank = Rank(0), .warmup_iterations = 0});
  ASSERT_TRUE(Feed(script, &recorder).ok());
  EXPECT_EQ(recorder.period(), std::nullopt);
  EXPECT_TRUE(recorder.Finish().ok()) << "they communicate alike";
  EXPECT_EQ(recorder.period(), std::nullopt);
}

// A communicator that all ranks first use in their fourth iteration, recorded by one rank that
// becomes steady at once and one that warms up for longer.
TEST(Iterations, ranks_that_settle_early_or_late_hold_the_same_for_what_all_use_late) {
  const auto record = [](int warmup, int32_t least, int last) {
    RecordScript script;
    for (int i = 0; i < 12; ++i) {
      script.Matmul(i < warmup ? 16 + i : 64);
      if (i == 3) {
        script.Outside("nccl ring", 1, 100);
      }
      if (i == last) {
        script.Outside("nccl ring", 2, 10'000);
      }
      script.Marker("Optimizer.step#Adam.step", true);
      script.Marker("Optimizer.step#Adam.step", false);
    }
    Recorder recorder({.rank = Rank(1), .warmup_iterations = 0, .least_iterations = least});
    for (const ScriptedRecord& scripted : script.records()) {
      EXPECT_TRUE(recorder.Consume(scripted.record, scripted.payload).ok());
      if (recorder.complete()) {
        break;
      }
    }
    const Result<graph::Fragment> fragment = recorder.Finish();
    EXPECT_TRUE(fragment.ok()) << fragment.status().message();
    return fragment->memory.device_bytes();
  };
  EXPECT_EQ(record(1, 5, 7), 100);
  EXPECT_EQ(record(6, 5, 7), 100) << "it is recorded for 8, but counts what all are recorded for";
  EXPECT_EQ(record(1, 0, 7), 0);
  EXPECT_EQ(record(6, 0, 7), 10'100);
}

// As in a zero-bubble schedule that traverses its graph by address.
TEST(Iterations, another_order_in_each_iteration_is_told_so) {
  RecordScript script;
  for (int i = 0; i < 5; ++i) {
    for (int kernel = 0; kernel < 5; ++kernel) {
      script.Kernel("weight " + std::to_string((i * (kernel + 1)) % 5));
      script.Kernel("weight");
    }
    script.Matmul(16);
    script.Marker("Optimizer.step#Adam.step", true);
    script.Marker("Optimizer.step#Adam.step", false);
  }
  const Result<graph::Fragment> fragment = RecordAll(script, 0, 0);
  ASSERT_FALSE(fragment.ok());
  EXPECT_THAT(fragment.status().message(), HasSubstr("except in the order of their ops"));
}

TEST(Iterations, a_range_of_the_programs_own_goes_before_optimizer_steps) {
  RecordScript script;
  for (int i = 0; i < 4; ++i) {
    script.Marker("iteration", true);
    AddTraining(&script, 16);
    script.Marker("iteration", false);
  }
  const Result<graph::Fragment> fragment = RecordAll(script, 0, 0);
  ASSERT_TRUE(fragment.ok()) << fragment.status().message();
  EXPECT_EQ(fragment->warmup_iterations, 0);
  EXPECT_THAT(fragment->iteration_begin, HasSubstr("\"iteration\""));
}

// A CUDA graph with the optimizer's step in it, of which all but the first op of a launch is free.
TEST(Iterations, begin_inside_of_the_launch_of_a_graph_with_the_step_in_it) {
  RecordScript script;
  for (int i = 0; i < 4; ++i) {
    script.Matmul(16);
    script.InLaunch(true);
    script.Kernel("backward");
    script.Marker("Optimizer.step#Adam.step", true);
    script.Kernel("update");
    script.Marker("Optimizer.step#Adam.step", false);
    script.InLaunch(false);
  }
  const Result<graph::Fragment> fragment = RecordAll(script, 0, 0);
  ASSERT_TRUE(fragment.ok()) << fragment.status().message();
  for (uint32_t op = 0; op < fragment->program.size(); ++op) {
    EXPECT_TRUE(fragment->program.kind[op] != OpKind::kMarker ||
                (fragment->program.flags[op] & graph::kLaunchedWithPrevious) == 0)
        << op << ": a range costs the host nothing";
  }
}

// As around each launch of a CUDA graph.
TEST(Iterations, a_range_after_optimizer_steps_takes_over) {
  RecordScript script;
  for (const int32_t size : {16, 32}) {
    AddTraining(&script, size);
  }
  for (int i = 0; i < 4; ++i) {
    script.Marker("iteration", true);
    script.Kernel("replayed");
    script.Marker("iteration", false);
  }
  const Result<graph::Fragment> fragment = RecordAll(script, 0, 0);
  ASSERT_TRUE(fragment.ok()) << fragment.status().message();
  EXPECT_EQ(fragment->warmup_iterations, 2) << "one of optimizer steps that differ";
  EXPECT_EQ(fragment->iterations, 6);
  EXPECT_EQ(fragment->iteration_begin, "the range \"iteration\"");
  EXPECT_THAT(fragment->program.kind,
              ElementsAre(OpKind::kMarker, OpKind::kKernel, OpKind::kMarker));
  EXPECT_THAT(fragment->memory.peak_phase, testing::Not(HasSubstr("iteration/iteration")));
}

TEST(Iterations, a_range_after_steady_steps_does_not_take_over) {
  RecordScript script;
  for (int i = 0; i < 4; ++i) {
    AddTraining(&script, 16);
  }
  script.Marker("iteration", true);
  script.Marker("iteration", false);
  AddTraining(&script, 16);
  const Result<graph::Fragment> fragment = RecordAll(script, 0, 0);
  ASSERT_TRUE(fragment.ok()) << fragment.status().message();
  EXPECT_THAT(fragment->odd_iterations, ElementsAre(3)) << "the one with the range";
  EXPECT_THAT(fragment->iteration_begin, HasSubstr("Optimizer.step#AdamW.step"));
}

TEST(Iterations, a_program_that_uses_no_device_is_told_so) {
  RecordScript script;
  script.Marker("Optimizer.step#SGD.step", true);
  script.Marker("Optimizer.step#SGD.step", false);
  EXPECT_THAT(RecordAll(script, 0, 0).status().message(),
              HasSubstr("it issued nothing to a CUDA device"));
}

TEST(Iterations,
     iterations_that_differ_in_segments_alone_will_do_when_the_program_ends_inside_of_one) {
  RecordScript script;
  for (int i = 0; i < 4; ++i) {
    if (i == 2) {
      script.Segment(2 << 20);
    }
    AddTraining(&script, 16);
  }
  const Result<graph::Fragment> fragment = RecordAll(script, 0, 0);
  ASSERT_TRUE(fragment.ok()) << fragment.status().message();
  EXPECT_EQ(fragment->warmup_iterations, 1);
  EXPECT_THAT(fragment->warnings,
              ElementsAre(::testing::Field(&graph::Warning::code, "segments_not_steady")));
}

TEST(Iterations, a_program_that_ends_inside_of_an_iteration_is_told_where_the_ones_before_differ) {
  RecordScript script;
  for (const int32_t size : {16, 32, 64, 128}) {
    AddTraining(&script, size);
  }
  const Result<graph::Fragment> fragment = RecordAll(script, 0, 0);
  ASSERT_FALSE(fragment.ok());
  EXPECT_THAT(fragment.status().message(), HasSubstr("iterations 1 and 2 differ at op"));
}

TEST(Iterations, an_odd_iteration_among_steady_ones_ends_them_and_is_a_warning) {
  RecordScript script;
  for (const bool logs : {false, false, false, false, true, false}) {
    AddTraining(&script, 16, logs);
  }
  const Result<graph::Fragment> fragment = RecordAll(script, 0, 0);
  ASSERT_TRUE(fragment.ok()) << fragment.status().message();
  EXPECT_EQ(fragment->iterations, 5);
  EXPECT_THAT(fragment->odd_iterations, ElementsAre(3)) << "the fourth logs";
  ASSERT_EQ(fragment->warnings.size(), 1U);
  EXPECT_EQ(fragment->warnings[0].code, "odd_iteration");
  EXPECT_THAT(fragment->warnings[0].example,
              HasSubstr("the time leaves out iteration 3 of rank 0, which has kernel mean"));
}

// What a step does beside training is told by what it has more of.
TEST(Iterations, odd_iterations_are_told_apart_and_kept) {
  RecordScript script;
  enum class Does : uint8_t { kNothing, kSaves, kEvaluates, kLogs, kTrainsMore };
  const auto train = [&](Does does) {
    script.Matmul(16);
    script.InBackward(true);
    script.Matmul(16);
    script.Matmul(does == Does::kTrainsMore ? 16 : 8);
    if (does == Does::kTrainsMore) {
      script.Matmul(16);
    }
    script.InBackward(false);
    script.Marker("Optimizer.step#Adam.step", true);
    script.Marker("Optimizer.step#Adam.step", false);
    if (does == Does::kSaves || does == Does::kLogs) {
      channel::Record copy = {};
      copy.kind = RecordKind::kMemcpy;
      copy.copy.bytes = does == Does::kSaves ? 1 << 20 : 4;
      copy.copy.device_to_host = 1;
      script.Add(copy);
    } else if (does == Does::kEvaluates) {
      script.Matmul(32);
    }
  };
  for (int step = 0; step < 34; ++step) {
    train(step == 33       ? Does::kTrainsMore
          : step % 10 == 9 ? Does::kSaves
          : step % 7 == 6  ? Does::kEvaluates
          : step == 12     ? Does::kLogs
                           : Does::kNothing);
  }
  train(Does::kNothing);
  Recorder recorder({.rank = Rank(0), .warmup_iterations = 0});
  ASSERT_TRUE(Feed(script, &recorder).ok());
  const Result<graph::Fragment> fragment = recorder.Finish();
  ASSERT_TRUE(fragment.ok()) << fragment.status().message();
  const OddIterations& odd = recorder.odd();
  EXPECT_THAT(odd.kinds,
              ElementsAre(OddKind{OddSort::kEvaluation, {6, 13, 20, 27}},
                          OddKind{OddSort::kCheckpoint, {9, 19, 29}},
                          OddKind{OddSort::kLogging, {12}}, OddKind{OddSort::kOther, {32}}));
  EXPECT_EQ(odd.seen, 34);
  const std::vector<graph::Fragment> kept = recorder.OddFragments(*fragment);
  ASSERT_EQ(kept.size(), 4U);
  EXPECT_EQ(kept[0].warmup_iterations, 6);
  EXPECT_EQ(kept[1].warmup_iterations, 9);
  EXPECT_EQ(kept[1].program.size(), fragment->program.size() + 1);
}

// Other ranks record those that rank 0 found, beside their steady one.
TEST(Iterations, a_rank_records_the_odd_iterations_that_it_is_asked_for) {
  RecordScript script;
  for (int step = 0; step < 8; ++step) {
    AddTraining(&script, 16, step == 6);
  }
  RecorderOptions options = {.rank = Rank(1), .warmup_iterations = 0, .least_iterations = 2};
  options.odd[0] = 5;
  Recorder recorder(options);
  size_t taken = 0;
  for (; taken < script.records().size() && !recorder.complete(); ++taken) {
    const ScriptedRecord& next = script.records()[taken];
    ASSERT_TRUE(recorder.Consume(next.record, next.payload).ok());
  }
  EXPECT_EQ(recorder.iterations(), 6);
  const Result<graph::Fragment> fragment = recorder.Finish();
  ASSERT_TRUE(fragment.ok()) << fragment.status().message();
  EXPECT_TRUE(fragment->warnings.empty());
  const std::vector<graph::Fragment> kept = recorder.OddFragments(*fragment);
  ASSERT_EQ(kept.size(), 1U);
  EXPECT_EQ(kept[0].program.size(), fragment->program.size() + 1) << "the mean of the loss";
}

// As torch.profiler numbers its steps: after each step the range ends and the next one begins.
TEST(Iterations, ranges_that_are_numbered_by_step_are_kept_but_not_compared) {
  RecordScript script;
  for (int step = 0; step < 4; ++step) {
    script.Marker("ProfilerStep#" + std::to_string(step), true);
    AddTraining(&script, 16);
    script.Marker("ProfilerStep#" + std::to_string(step), false);
  }
  const Result<graph::Fragment> fragment = RecordAll(script, 0, 0);
  ASSERT_TRUE(fragment.ok()) << fragment.status().message();
  EXPECT_EQ(fragment->warmup_iterations, 0);
  EXPECT_THAT(fragment->strings, testing::IsSupersetOf({"ProfilerStep#0", "ProfilerStep#1"}));
  EXPECT_TRUE(fragment->warnings.empty());
}

// DistributedDataParallel times its first ten steps and every hundredth.
TEST(Iterations, records_of_events_that_nobody_waits_for_make_no_iteration_odd) {
  for (const bool waits : {false, true}) {
    RecordScript script;
    for (int i = 0; i < 20; ++i) {
      script.Matmul(16);
      if (i < 9) {
        script.Event(RecordKind::kEventRecord, 7, 0);
        if (waits) {
          script.Event(RecordKind::kEventWait, 7, 1);
        }
      }
      script.Marker("Optimizer.step#Adam.step", true);
      script.Marker("Optimizer.step#Adam.step", false);
    }
    const Result<graph::Fragment> fragment = RecordAll(script, 0, 0);
    ASSERT_TRUE(fragment.ok()) << fragment.status().message();
    EXPECT_EQ(fragment->iterations, 19);
    EXPECT_EQ(fragment->odd_iterations.size(), waits ? 11U : 0U);
    EXPECT_EQ(fragment->warnings.size(), waits ? 1U : 0U);
  }
}

TEST(Iterations, steps_that_take_turns_are_found_before_the_last_one_changes) {
  RecordScript script;
  for (int i = 0; i < 10; ++i) {
    script.Matmul(i % 2 == 0 ? 16 : 32);
    if (i < 9) {
      script.Event(RecordKind::kEventRecord, 7, 0);
    }
    script.Marker("Optimizer.step#Adam.step", true);
    script.Marker("Optimizer.step#Adam.step", false);
  }
  Recorder recorder({.rank = Rank(0), .warmup_iterations = 0});
  ASSERT_TRUE(Feed(script, &recorder).ok());
  EXPECT_EQ(recorder.period(), 2);
}

// A range of the program is an iteration whatever it contains: recording it again with more steps
// would find the same.
TEST(Iterations, iterations_that_the_program_marks_have_no_period) {
  RecordScript script;
  script.CommInit(1, "default_pg", 8, 0, 1);
  for (int i = 0; i < 16; ++i) {
    script.Marker("iteration", true);
    script.Matmul(16);
    script.AllReduce(1, i % 3 == 2 ? 8 << 20 : 1 << 20, 1);
    script.Marker("Optimizer.step#AdamW.step", true);
    script.Marker("Optimizer.step#AdamW.step", false);
    script.Marker("iteration", false);
  }
  Recorder recorder({.rank = Rank(0), .warmup_iterations = 0, .steady_iterations = 12});
  ASSERT_TRUE(Feed(script, &recorder).ok());
  EXPECT_FALSE(recorder.period().has_value());
  EXPECT_TRUE(recorder.Finish().ok());
}

TEST(Iterations, a_program_that_ends_too_early_is_asked_for_more_steps) {
  RecordScript script;
  for (const int32_t size : {16, 32, 64, 128}) {
    AddTraining(&script, size);
  }
  EXPECT_THAT(RecordAll(script, 0, 0).status().message(), HasSubstr("let it run more steps"));
}

TEST(Iterations, a_program_that_communicates_differently_each_time_is_explained) {
  RecordScript script;
  script.CommInit(1, "dp", 4, 0, 1);
  for (int i = 0; i < 16; ++i) {
    AddTraining(&script, 16, i % 2 == 0);
    for (int reduction = 0; reduction < i; ++reduction) {
      script.AllReduce(1, 64, 1);
    }
  }
  const Result<graph::Fragment> fragment = RecordAll(script, 0, 0);
  ASSERT_FALSE(fragment.ok());
  EXPECT_THAT(fragment.status().message(), HasSubstr("iterations 12 and 13 differ at op"));
  EXPECT_THAT(fragment.status().message(), HasSubstr("all_reduce"));
  EXPECT_THAT(fragment.status().message(), testing::Not(HasSubstr("more steps")));
}

}  // namespace
}  // namespace prism::slicer
