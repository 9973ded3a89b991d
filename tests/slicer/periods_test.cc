// Programs in which every N-th iteration differs.
#include <algorithm>
#include <functional>
#include <optional>

#include <gtest/gtest.h>

#include "tests/slicer/script_recording.h"

namespace prism::slicer {
namespace {

// Steps of which every fourth, beginning with the second, is followed by what `outer` adds.
void AddSteps(RecordScript* script, int count, const std::function<void()>& outer) {
  for (int i = 0; i < count; ++i) {
    script->Matmul(16);
    script->AllReduce(1, 1 << 20, 1);
    script->Marker("Optimizer.step#AdamW.step", true);
    script->Marker("Optimizer.step#AdamW.step", false);
    if (i % 4 == 1) {
      outer();
    }
  }
}

struct Looked {
  std::optional<int32_t> period;
  int32_t iterations = 0;
  bool is_odd = false;
};

// Records as for rank 0 of a user's program: until there is nothing more to look for.
Looked LookForPeriod(const std::function<void(RecordScript*)>& outer) {
  RecordScript script;
  script.CommInit(1, "default_pg", 8, 0, 1);
  AddSteps(&script, 100, [&] { outer(&script); });
  Recorder recorder({.rank = Rank(0), .warmup_iterations = 0, .steady_iterations = 3});
  for (const ScriptedRecord& scripted : script.records()) {
    EXPECT_TRUE(recorder.Consume(scripted.record, scripted.payload).ok());
    if (recorder.has_looked_for_period()) {
      break;
    }
  }
  Looked looked = {.period = recorder.period(), .iterations = recorder.iterations()};
  const Result<graph::Fragment> fragment = recorder.Finish();
  EXPECT_TRUE(fragment.ok()) << fragment.status().message();
  looked.is_odd = std::ranges::any_of(fragment->warnings, [](const graph::Warning& warning) {
    return warning.code == "odd_iteration";
  });
  return looked;
}

// DiLoCo: the outer step averages what the inner ones of each rank have changed.
TEST(Iterations, an_outer_step_in_every_fourth_makes_four_one_iteration) {
  const Looked outer = LookForPeriod([](RecordScript* script) {
    script->Marker("Optimizer.step#SGD.step", true);
    script->Kernel("sgd");
    script->Marker("Optimizer.step#SGD.step", false);
  });
  EXPECT_EQ(outer.period, 4);
  EXPECT_LE(outer.iterations, 40);
  EXPECT_EQ(LookForPeriod([](RecordScript* script) { script->AllReduce(1, 1 << 20, 1); }).period,
            4);
}

// Matrix products before its own step make that step an iteration, which trains nothing.
TEST(Iterations, an_outer_step_that_multiplies_matrices_makes_one_iteration_with_its_inner_ones) {
  const auto look = [](bool steps) {
    RecordScript script;
    script.CommInit(1, "default_pg", 8, 0, 1);
    for (int i = 0; i < 100; ++i) {
      script.Matmul(16);
      script.InBackward(true);
      script.Matmul(16);
      script.InBackward(false);
      script.Marker("Optimizer.step#AdamW.step", true);
      script.Marker("Optimizer.step#AdamW.step", false);
      if (i % 4 == 3) {
        script.Matmul(8);
        script.AllReduce(1, 1 << 20, 1);
        if (steps) {
          script.Marker("Optimizer.step#AdamW.step", true);
          script.Marker("Optimizer.step#AdamW.step", false);
        }
      }
    }
    Recorder recorder({.rank = Rank(0), .warmup_iterations = 0, .steady_iterations = 3});
    EXPECT_TRUE(Feed(script, &recorder).ok());
    return recorder.period();
  };
  EXPECT_EQ(look(true), 5) << "four inner steps and the outer one";
  EXPECT_EQ(look(false), std::nullopt) << "an evaluation";
}

TEST(Iterations, a_log_line_in_every_fourth_makes_no_period) {
  const Looked logs = LookForPeriod([](RecordScript* script) {
    script->Kernel("mean");
    script->AllReduce(1, 256, 1);
  });
  EXPECT_EQ(logs.period, std::nullopt);
  EXPECT_TRUE(logs.is_odd);
  const Looked plain = LookForPeriod([](RecordScript*) {});
  EXPECT_EQ(plain.period, std::nullopt);
  EXPECT_FALSE(plain.is_odd);
  EXPECT_EQ(plain.iterations, 33) << "an outer step of a longer period than 32 is not found";
}

// A sharded model is gathered for a checkpoint, and its parts are summed in a forward pass.
TEST(Iterations, a_checkpoint_or_an_evaluation_in_every_fourth_makes_no_period) {
  const Looked checkpoint = LookForPeriod([](RecordScript* script) {
    script->Broadcast(1, 0, 8 << 20, 1);
    script->Transfer(1, 1, false, 8 << 20, 1);
    script->GroupEnd();
  });
  EXPECT_EQ(checkpoint.period, std::nullopt);
  EXPECT_TRUE(checkpoint.is_odd);
  const Looked evaluation = LookForPeriod([](RecordScript* script) {
    script->Matmul(16);
    script->AllReduce(1, 1 << 20, 1);
  });
  EXPECT_EQ(evaluation.period, std::nullopt);
  EXPECT_TRUE(evaluation.is_odd);
}

TEST(Iterations, what_comes_once_is_odd_and_makes_no_period) {
  int times = 0;
  const Looked once = LookForPeriod([&](RecordScript* script) {
    if (++times == 2) {
      script->AllReduce(1, 1 << 20, 1);
    }
  });
  EXPECT_EQ(once.period, std::nullopt);
  EXPECT_TRUE(once.is_odd);
}

}  // namespace
}  // namespace prism::slicer
