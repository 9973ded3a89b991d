// Programs that end before two iterations in a row do the same.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/job/whole_program.h"
#include "tests/slicer/script_recording.h"

namespace prism::slicer {
namespace {

using channel::RecordKind;
using ::testing::HasSubstr;

// What a step does besides, before it moves anything.
using FirstTime = void (*)(RecordScript*);

// Three steps; the event of the first makes what is waited for later have another place.
RecordScript ThreeSteps(FirstTime first_time) {
  RecordScript script;
  script.CommInit(1, "dp", 4, 0, 1);
  for (uint32_t step = 0; step < 3; ++step) {
    script.Matmul(64);
    script.Marker("Optimizer.step#AdamW.step", true);
    if (step == 0) {
      first_time(&script);
    }
    script.Kernel("update");
    script.Marker("Optimizer.step#AdamW.step", false);
    script.Event(RecordKind::kEventRecord, step + 1, 0);
    script.Event(RecordKind::kEventWait, step + 1, 1);
    script.AllReduce(1, 1 << 20, 1);
  }
  return script;
}

// What comes before the first call on the device, such as a range, does not count.
TEST(ShortPrograms, one_without_iterations_is_recorded_as_a_whole) {
  RecordScript script;
  script.CommInit(1, "dp", 4, 0, 1);
  script.Marker("warm", true);
  script.AllReduce(1, 8, 1);
  script.Marker("warm", false);
  script.Kernel("fill");
  const auto record = [&](int32_t steps) {
    Recorder recorder(
        {.rank = Rank(0), .warmup_iterations = 0, .steps_per_iteration = steps, .world_size = 4});
    EXPECT_TRUE(Feed(script, &recorder).ok());
    EXPECT_EQ(recorder.has_no_iterations(), steps == 1);
    return recorder.Finish();
  };
  EXPECT_THAT(record(1).status().message(), HasSubstr("it stepped no torch optimizer"));
  const Result<graph::Fragment> whole = record(graph::kWholeProgram);
  ASSERT_TRUE(whole.ok()) << whole.status().message();
  EXPECT_EQ(whole->iterations, 1);
  EXPECT_EQ(whole->program.size(), 5U) << "with the beginning of the one iteration";
  EXPECT_EQ(whole->comm_slots.size(), 1U);
}

TEST(ShortPrograms, the_last_iteration_stands_for_all_if_the_one_before_has_first_time_work) {
  const Result<graph::Fragment> fragment = RecordAll(ThreeSteps([](RecordScript* script) {
                                                       script->Kernel("fill");
                                                       script->Kernel("fill");
                                                       script->AllReduce(1, 8, 1);
                                                     }),
                                                     0, 0);
  ASSERT_TRUE(fragment.ok()) << fragment.status().message();
  EXPECT_EQ(fragment->warmup_iterations, 1);
  EXPECT_FALSE(fragment->varies);
  ASSERT_EQ(fragment->warnings.size(), 1U);
  EXPECT_EQ(fragment->warnings.front().code, "first_time_work_left_out");
  EXPECT_EQ(fragment->warnings.front().count, 3);
  EXPECT_THAT(fragment->warnings.front().example,
              HasSubstr("rank 0: the program ended after iteration 1, which stands for all: the "
                        "one before does the same and, once, 2 × kernel fill"));
}

TEST(ShortPrograms, what_may_be_training_is_not_first_time_work) {
  for (const FirstTime training :
       {FirstTime([](RecordScript* script) { script->Matmul(8); }),
        FirstTime([](RecordScript* script) { script->AllReduce(1, 1 << 20, 1); }),
        FirstTime([](RecordScript* script) {
          script->Marker("Optimizer.step#SGD.step", true);
          script->Kernel("update");
          script->Marker("Optimizer.step#SGD.step", false);
        })}) {
    const Result<graph::Fragment> fragment = RecordAll(ThreeSteps(training), 0, 0);
    ASSERT_FALSE(fragment.ok());
    EXPECT_THAT(fragment.status().message(),
                HasSubstr("no two iterations in a row are the same among the 2"));
  }
}

}  // namespace
}  // namespace prism::slicer
