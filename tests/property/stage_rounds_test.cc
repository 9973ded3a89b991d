// Rounds that a StageRun extrapolates (replayer/stages/stage_run.h). Tested with stages that look
// steady before they are, such as streams of different pace that wait for what others did in the
// previous turn.
#include <algorithm>
#include <vector>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "replayer/stages/stage_replay.h"
#include "tests/support/test_parameters.h"

namespace prism::replayer {
namespace {

using graph::OpKind;

constexpr uint8_t kFree = graph::kLaunchedWithPrevious;

// A stream: where it begins, what it does in every turn, and for which streams, as issued so far,
// it waits before that.
struct Gear {
  int64_t begin_ns = 0;
  int64_t pace_ns = 0;
  std::vector<uint32_t> waits;
};

// Gears in issue order, and the one whose stream ends the iteration.
struct Machine {
  std::vector<Gear> gears;
  uint16_t last = 0;
};

graph::Program EmptyProgram() {
  graph::Program program;
  program.stream_count = graph::kStageStreamCount;
  return program;
}

void AddWork(uint16_t stream, int64_t duration_ns, graph::Program* program) {
  program->Append({.kind = OpKind::kMemset,
                   .flags = kFree | graph::kDurationFixed,
                   .stream = stream,
                   .value = duration_ns});
}

void AddEvent(OpKind kind, uint16_t stream, uint32_t slot, graph::Program* program) {
  program->Append({.kind = kind, .flags = kFree, .stream = stream, .value = int64_t{slot} + 1});
}

graph::Program Begin(const Machine& machine) {
  graph::Program program = EmptyProgram();
  for (uint16_t s = 0; s < machine.gears.size(); ++s) {
    AddWork(s, machine.gears[s].begin_ns, &program);
    AddEvent(OpKind::kEventRecord, s, s, &program);
  }
  return program;
}

graph::Program Turn(const Machine& machine) {
  graph::Program program = EmptyProgram();
  for (uint16_t s = 0; s < machine.gears.size(); ++s) {
    for (const uint32_t stream : machine.gears[s].waits) {
      AddEvent(OpKind::kEventWait, s, stream, &program);
    }
    AddWork(s, machine.gears[s].pace_ns, &program);
    AddEvent(OpKind::kEventRecord, s, s, &program);
  }
  return program;
}

graph::Program End(const Machine& machine) {
  graph::Program program = EmptyProgram();
  AddWork(machine.last, 1'000'000, &program);
  program.Append({.kind = OpKind::kDeviceSync, .flags = kFree});
  return program;
}

// A turn is a round.
graph::JobProgram JobOf(const Machine& machine, size_t turns) {
  graph::JobProgram job;
  job.strings = {""};
  job.blocks = {Begin(machine), Turn(machine), End(machine)};
  graph::StageProgram stage;
  stage.event_slot_count = static_cast<uint16_t>(machine.gears.size());
  stage.calls.assign(turns + 2, 1);
  stage.calls.front() = 0;
  stage.calls.back() = 2;
  for (uint32_t call = 1; call < stage.calls.size(); ++call) {
    stage.rounds.push_back(call);
  }
  job.stages = {stage};
  return job;
}

// The time of an iteration with rounds skipped and without, and how many were.
struct Times {
  DurationNs told_ns = 0;
  DurationNs whole_ns = 0;
  int64_t skipped = 0;
};

Times TimesOf(const Machine& machine, size_t turns) {
  const graph::ClusterSpec cluster = prism::testing::TestCluster();
  graph::JobProgram job = JobOf(machine, turns);
  const auto told = StageEvaluator::Create(job)->Evaluate(cluster, {});
  job.stages.front().rounds.clear();
  const auto whole = StageEvaluator::Create(job)->Evaluate(cluster, {});
  PRISM_CHECK(told.ok() && whole.ok());
  PRISM_CHECK_EQ(whole->skipped_rounds, 0);
  return {told->iteration_ns, whole->iteration_ns, told->skipped_rounds};
}

Machine AnyMachine() {
  Machine machine;
  machine.gears.resize(4);
  for (Gear& gear : machine.gears) {
    gear.begin_ns = *rc::gen::inRange(0, 40);
    gear.pace_ns = *rc::gen::inRange(0, 4);
    for (uint32_t stream = 0; stream < machine.gears.size(); ++stream) {
      if (*rc::gen::inRange(0, 3) == 0) {
        gear.waits.push_back(stream);
      }
    }
  }
  machine.last = static_cast<uint16_t>(*rc::gen::inRange<size_t>(0, machine.gears.size()));
  return machine;
}

TEST(StageRounds, skips_no_round_that_is_unlike_the_others) {
  int64_t skipped = 0;
  EXPECT_TRUE(rc::check([&] {
    const Machine machine = AnyMachine();
    const Times times = TimesOf(machine, *rc::gen::inRange<size_t>(1, 70));
    RC_ASSERT(times.told_ns == times.whole_ns);
    skipped += times.skipped;
  }));
  EXPECT_GT(skipped, 1000);
}

// A turn moves every time as one does that is `far` turns on, and yet those in between fall
// behind: kLate is led by kSlow at first and by kFast in the end, 5 and 7 a turn, the one taking
// over from the other just so that the last turn leads where 6 a turn would, as earlier ones moved.
// What hears of it one turn later is 1 behind, and so is the iteration. `chain`: turns until what
// leads at first has come to kLate, by way of as many gears, which begin as if it were 6 a turn.
Machine LooksSteady(int64_t far, int64_t chain) {
  enum : uint32_t { kLast, kHeard, kLate, kChain };
  constexpr int64_t kAhead = 400;
  const auto slow = static_cast<uint32_t>(kChain + chain);
  const uint32_t fast = slow + 1;
  Machine machine;
  machine.gears = {
      {kAhead - 5 * chain - 12 + far, 5, {kHeard}},  // kLast
      {0, 0, {kLate}},                               // kHeard
      {0, 0, {kChain, fast}},                        // kLate
  };
  for (int64_t gear = chain; gear > 0; --gear) {  // each hears of the one after it
    machine.gears.push_back(
        {kAhead - 6 * gear, 0, {static_cast<uint32_t>(machine.gears.size() + 1)}});
  }
  machine.gears.push_back({kAhead, 5, {}});
  machine.gears.push_back({kAhead - 7 * chain - far, 7, {}});
  machine.last = kLast;
  return machine;
}

TEST(StageRounds, two_that_are_alike_do_not_make_all_alike) {
  for (int64_t chain = 2; chain < 6; ++chain) {
    for (int64_t far = 2; far < 60; ++far) {
      for (int64_t turns = far; turns < far + 12; ++turns) {
        const Times times = TimesOf(LooksSteady(far, chain), static_cast<size_t>(turns));
        EXPECT_EQ(times.told_ns, times.whole_ns) << far << " of " << turns << " by " << chain;
      }
    }
  }
}

// The pace changes half-way: a slow stream, which all wait for, is far ahead of a fast one at
// first.
TEST(StageRounds, are_skipped_up_to_where_the_pace_changes_and_from_there_on) {
  constexpr int64_t kTurns = 1000;
  const Machine machine = {{{kTurns, 3, {}}, {0, 5, {}}, {0, 1, {0, 1}}}, 2};
  const Times times = TimesOf(machine, kTurns);
  EXPECT_EQ(times.told_ns, times.whole_ns);
  EXPECT_GT(times.skipped, kTurns - 100);
}

}  // namespace
}  // namespace prism::replayer
