// What a PhraseRun leaves out (replayer/stages/phrase_run.h): turns of a loop, and the rest of an
// iteration. Tested with stages that look steady before they are, such as streams of different pace
// that wait for what others did in the previous turn.
#include <memory>
#include <vector>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "replayer/stages/phrase_replay.h"
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

// What gears first .. last - 1 do in a turn.
graph::Program TurnOf(const Machine& machine, size_t first, size_t last) {
  graph::Program program = EmptyProgram();
  for (auto s = static_cast<uint16_t>(first); s < last; ++s) {
    for (const uint32_t stream : machine.gears[s].waits) {
      AddEvent(OpKind::kEventWait, s, stream, &program);
    }
    AddWork(s, machine.gears[s].pace_ns, &program);
    AddEvent(OpKind::kEventRecord, s, s, &program);
  }
  return program;
}

graph::Program Turn(const Machine& machine) {
  return TurnOf(machine, 0, machine.gears.size());
}

graph::Program End(const Machine& machine) {
  graph::Program program = EmptyProgram();
  AddWork(machine.last, 1'000'000, &program);
  program.Append({.kind = OpKind::kDeviceSync, .flags = kFree});
  return program;
}

// One turn after the loop.
graph::PhrasedJob JobOf(const Machine& machine, size_t turns) {
  graph::PhrasedJob job;
  job.program = std::make_shared<graph::JobProgram>();
  job.program->strings = {""};
  job.program->blocks = {Begin(machine), Turn(machine), End(machine)};
  job.kinds = {{{{0}, {1}, {2}}, static_cast<uint16_t>(machine.gears.size())}};
  graph::PhrasedStage stage;
  stage.steps.push_back(0);
  for (size_t turn = 0; turn < turns; ++turn) {
    stage.rounds.push_back(static_cast<uint32_t>(stage.steps.size()));
    stage.steps.push_back(1);
  }
  stage.rounds.push_back(static_cast<uint32_t>(stage.steps.size()));
  stage.steps.push_back(2);
  job.stages = {stage};
  return job;
}

// The time through a loop, and the time of all turns.
struct Times {
  DurationNs looped_ns = 0;
  DurationNs whole_ns = 0;
};

Times TimesOf(const Machine& machine, size_t more_turns) {
  constexpr size_t kTurns = 3;  // with one turn on either side of the loop
  const graph::ClusterSpec cluster = prism::testing::TestCluster();
  BlockLibrary library(/*several_stages=*/false);
  const auto looped = PhraseReplay(JobOf(machine, kTurns), cluster,
                                   {.more_rounds = static_cast<int64_t>(more_turns)}, &library);
  const graph::JobProgram whole = WriteOut(JobOf(machine, kTurns + more_turns));
  const auto expected = StageEvaluator::Create(whole)->Evaluate(cluster, {});
  PRISM_CHECK(looped.ok() && looped->has_value() && expected.ok());
  return {(*looped)->iteration_ns, expected->iteration_ns};
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

RC_GTEST_PROP(PhraseJump, skips_no_turn_that_is_unlike_the_others, ()) {
  const Machine machine = AnyMachine();
  const Times times = TimesOf(machine, *rc::gen::inRange<size_t>(1, 60));
  RC_ASSERT(times.looped_ns == times.whole_ns);
}

// A turn moves every register as one does that is `far` turns on, and yet those in between fall
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

TEST(PhraseJump, takes_two_turns_that_are_alike) {
  for (int64_t chain = 2; chain < 6; ++chain) {
    for (int64_t far = 2; far < 60; ++far) {
      for (int64_t more = far; more < far + 6; ++more) {
        const Times times = TimesOf(LooksSteady(far, chain), static_cast<size_t>(more));
        EXPECT_EQ(times.looped_ns, times.whole_ns) << far << " of " << more << " by " << chain;
      }
    }
  }
}

void ExpectTimeOfWhole(const graph::PhrasedJob& job) {
  const graph::ClusterSpec cluster = prism::testing::TestCluster();
  BlockLibrary library(job.stages.size() > 1);
  const auto told = PhraseReplay(job, cluster, {}, &library);
  const auto expected = StageEvaluator::Create(WriteOut(job))->Evaluate(cluster, {});
  ASSERT_TRUE(told.ok() && told->has_value() && expected.ok());
  EXPECT_EQ((*told)->stage_ns, expected->stage_ns);
}

// Rounds of an interleaved schedule, of so many turns and one of another pace each. A turn is two
// steps. Up to two rounds are no loop.
struct Rounds {
  size_t rounds = 1;
  size_t turns = 0;
  int64_t slower_ns = 0;
};

graph::PhrasedJob JobOfPairs(const Machine& machine, const Rounds& rounds) {
  enum : uint32_t { kBegin, kForward, kBackward, kSlower, kEnd };
  Machine slower = machine;
  for (Gear& gear : slower.gears) {
    gear.pace_ns += rounds.slower_ns;
  }
  const size_t half = machine.gears.size() / 2;
  graph::PhrasedJob job;
  job.job.parallel.vpp = 2;
  job.program = std::make_shared<graph::JobProgram>();
  job.program->strings = {""};
  job.program->blocks = {Begin(machine), TurnOf(machine, 0, half),
                         TurnOf(machine, half, machine.gears.size()), Turn(slower), End(machine)};
  job.kinds = {{{{kBegin}, {kForward}, {kBackward}, {kSlower}, {kEnd}},
                static_cast<uint16_t>(machine.gears.size())}};
  graph::PhrasedStage stage;
  stage.steps.push_back(kBegin);
  for (size_t round = 0; round < rounds.rounds; ++round) {
    stage.rounds.push_back(static_cast<uint32_t>(stage.steps.size()));
    for (size_t turn = 0; turn < rounds.turns; ++turn) {
      stage.steps.insert(stage.steps.end(), {kForward, kBackward});
    }
    stage.steps.push_back(kSlower);
  }
  stage.steps.push_back(kEnd);
  job.stages = {stage};
  return job;
}

Times TimesOfPairs(const Machine& machine, const Rounds& rounds) {
  const graph::ClusterSpec cluster = prism::testing::TestCluster();
  const graph::PhrasedJob job = JobOfPairs(machine, rounds);
  BlockLibrary library(/*several_stages=*/false);
  const auto told = PhraseReplay(job, cluster, {}, &library);
  const auto expected = StageEvaluator::Create(WriteOut(job))->Evaluate(cluster, {});
  PRISM_CHECK(told.ok() && told->has_value() && expected.ok());
  return {(*told)->iteration_ns, expected->iteration_ns};
}

RC_GTEST_PROP(PhraseStretch, skips_no_turn_that_is_unlike_the_others, ()) {
  Rounds rounds;
  rounds.rounds = *rc::gen::inRange<size_t>(1, 8);
  rounds.turns = *rc::gen::inRange<size_t>(1, 40);
  rounds.slower_ns = *rc::gen::inRange(0, 60);
  const Times times = TimesOfPairs(AnyMachine(), rounds);
  RC_ASSERT(times.looped_ns == times.whole_ns);
}

TEST(PhraseStretch, takes_two_turns_that_are_alike) {
  for (int64_t chain = 4; chain < 10; ++chain) {
    for (int64_t far = 6; far < 30; ++far) {
      for (size_t turns = chain + far; turns < static_cast<size_t>(chain + far) + 8; ++turns) {
        const Times times = TimesOfPairs(LooksSteady(far, chain), {1, turns, 0});
        EXPECT_EQ(times.looped_ns, times.whole_ns) << far << " of " << turns << " by " << chain;
      }
    }
  }
}

// The second stage does something else in between, with turns on both sides that are like those of
// the first one.
TEST(PhraseStretch, ends_where_any_stage_does_something_else) {
  constexpr uint32_t kSlower = 3;
  const Machine even = {{{0, 3, {}}, {0, 2, {0}}}, 1};
  graph::PhrasedJob job = JobOfPairs(even, {1, 40, 50});
  graph::PhrasedStage other = JobOfPairs(even, {1, 43, 50}).stages.front();
  for (size_t step = 32; step < 60; step += 2) {
    other.steps[step] = kSlower;
  }
  job.stages.push_back(other);
  job.job.parallel.pp = 2;
  ExpectTimeOfWhole(job);
}

// A program of one stage that sends to the next one, or receives from the one before it, and works.
graph::Program PassOf(graph::PeerSlot peer, int64_t duration_ns) {
  constexpr graph::GroupAxis kAxis = graph::GroupAxis::kPipelineForward;
  const bool sends = peer == graph::PeerSlot::kNext;
  const uint16_t stream = sends ? graph::StageStream(kAxis) : graph::kStageReceiveForwardStream;
  const uint16_t before = sends ? graph::kStageComputeStream : stream;
  const uint16_t after = sends ? stream : graph::kStageComputeStream;
  graph::Program program = EmptyProgram();
  program.peer_groups = {{{{sends, graph::SlotOf(kAxis), graph::SlotOf(peer), 8}}}};
  const auto message = [&] {
    program.Append({.kind = OpKind::kPeerGroup, .flags = kFree, .stream = stream, .signature = 0});
  };
  const auto wait = [&] {
    const auto record = static_cast<uint32_t>(program.size());
    program.Append({.kind = OpKind::kEventRecord, .flags = kFree, .stream = before});
    program.Append({.kind = OpKind::kEventWait, .flags = kFree, .stream = after, .dep = record});
  };
  if (sends) {
    AddWork(0, duration_ns, &program);
    wait();
    message();
  } else {
    message();
    wait();
    AddWork(0, duration_ns, &program);
  }
  return program;
}

// The second stage is as many passes behind the first one as it has before its stretch, and moves
// as evenly there as in it, but for one pass that takes longer.
TEST(PhraseStretch, begins_where_the_last_stage_is_in_it) {
  constexpr size_t kFirst = 8;  // steps that no stretch contains
  constexpr size_t kBehind = 16;
  constexpr size_t kTurns = 40;
  enum : uint32_t { kForward, kBackward, kOther, kLonger, kEnd, kPhrases };
  graph::PhrasedJob job;
  job.job.parallel.pp = 2;
  job.job.parallel.vpp = 2;
  job.program = std::make_shared<graph::JobProgram>();
  job.program->strings = {""};
  for (const bool sends : {true, false}) {
    const graph::PeerSlot peer = sends ? graph::PeerSlot::kNext : graph::PeerSlot::kPrevious;
    graph::PhrasedKind kind;
    for (uint32_t phrase = 0; phrase < kPhrases; ++phrase) {
      kind.phrases.push_back({static_cast<uint32_t>(job.program->blocks.size())});
      if (phrase == kEnd) {
        job.program->blocks.push_back(EmptyProgram());
        job.program->blocks.back().Append(
            {.kind = OpKind::kStreamSync, .flags = kFree, .stream = 0});
      } else {
        job.program->blocks.push_back(
            PassOf(peer, sends ? 1000 : (phrase == kLonger ? 500'000 : 3000)));
      }
    }
    job.kinds.push_back(kind);
    graph::PhrasedStage stage;
    stage.kind = sends ? 0 : 1;
    stage.steps.assign(kFirst + (sends ? 0 : kBehind), kOther);
    stage.rounds = {static_cast<uint32_t>(stage.steps.size())};
    for (size_t turn = 0; turn < kTurns; ++turn) {
      stage.steps.insert(stage.steps.end(), {kForward, kBackward});
    }
    stage.steps.insert(stage.steps.end(), sends ? kBehind : 0, kOther);
    stage.steps.push_back(kEnd);
    job.stages.push_back(stage);
  }
  job.stages[1].steps[kFirst + kBehind - 2] = kLonger;
  ExpectTimeOfWhole(job);
}

constexpr size_t kManyTurns = 20;  // more turns than are examined in an iteration

// Stages that repeat `kManyTurns` times, and end.
struct TurnAndEnd {
  graph::Program turn = EmptyProgram();
  graph::Program end = EmptyProgram();
};

void ExpectTimeOfWhole(const std::vector<TurnAndEnd>& stages) {
  graph::PhrasedJob job;
  job.job.parallel.pp = static_cast<int32_t>(stages.size());
  job.program = std::make_shared<graph::JobProgram>();
  job.program->strings = {""};
  for (uint32_t s = 0; s < stages.size(); ++s) {
    job.program->blocks.push_back(stages[s].turn);
    job.program->blocks.push_back(stages[s].end);
    job.kinds.push_back({{{2 * s}, {2 * s + 1}}, 2});
    graph::PhrasedStage stage;
    stage.kind = s;
    stage.steps.resize(kManyTurns, 0);
    stage.steps.push_back(1);
    job.stages.push_back(stage);
  }
  ExpectTimeOfWhole(job);
}

// Compute waits for a stream, which then continues by itself: that it lags by then does not mean
// that it determines nothing.
TEST(PhraseMoves, keep_a_stream_that_goes_on_where_it_stands) {
  constexpr uint16_t kSide = 1;
  std::vector<graph::Program> blocks(3, EmptyProgram());
  AddWork(kSide, 3, &blocks[0]);
  AddEvent(OpKind::kEventRecord, kSide, 0, &blocks[0]);
  AddEvent(OpKind::kEventWait, 0, 0, &blocks[0]);
  AddWork(0, 1, &blocks[0]);
  AddWork(kSide, 500, &blocks[1]);
  AddEvent(OpKind::kEventRecord, kSide, 0, &blocks[1]);
  AddWork(0, 1, &blocks[1]);
  AddEvent(OpKind::kEventWait, 0, 0, &blocks[2]);
  AddWork(0, 1, &blocks[2]);
  blocks[2].Append({.kind = OpKind::kDeviceSync, .flags = kFree});
  graph::PhrasedJob job;
  job.program = std::make_shared<graph::JobProgram>();
  job.program->strings = {""};
  job.program->blocks = blocks;
  job.kinds = {{{{0}, {1}, {2}}, 1}};
  graph::PhrasedStage stage;
  stage.steps = {0, 0, 1, 0, 1, 1, 2};
  job.stages = {stage};
  ExpectTimeOfWhole(job);
}

// Four phrases: a kernel; one that waits for a collective on another stream, if there is any; one
// that starts such a collective and computes beside it; the end. The second one is called before
// anything is owed, and again when it has to pay.
TEST(PhraseCompiler, pays_for_what_is_owed_since_a_phrase_was_compiled) {
  const uint16_t stream = graph::StageStream(graph::GroupAxis::kTensor);
  const auto compute = [](int64_t duration_ns, graph::Program* program) {
    program->Append(
        {.kind = OpKind::kKernel, .flags = kFree | graph::kDurationFixed, .value = duration_ns});
  };
  graph::PhrasedJob job;
  job.job.parallel.tp = 2;
  job.program = std::make_shared<graph::JobProgram>();
  job.program->strings = {""};
  std::vector<graph::Program>& blocks = job.program->blocks;
  blocks.assign(4, EmptyProgram());
  compute(1000, blocks.data());
  blocks[1].Append({.kind = OpKind::kEventRecord, .flags = kFree, .stream = stream});
  blocks[1].Append({.kind = OpKind::kEventWait, .flags = kFree, .dep = 0});
  compute(3000, &blocks[1]);
  blocks[2].collectives = {{}};
  blocks[2].Append({.kind = OpKind::kCollective,
                    .flags = kFree | graph::kDurationFixed,
                    .stream = stream,
                    .comm_slot = graph::SlotOf(graph::GroupAxis::kTensor),
                    .signature = 0,
                    .value = 5000});
  compute(4000, &blocks[2]);
  blocks[3].Append({.kind = OpKind::kDeviceSync, .flags = kFree});
  job.kinds = {{{{0}, {1}, {2}, {3}}, 0}};
  job.stages.emplace_back().steps = {0, 1, 2, 1, 3};
  graph::ClusterSpec cluster = prism::testing::TestCluster();
  cluster.parameters.SetValue("overlap.compute_slowdown", 1.5);
  BlockLibrary library(/*several_stages=*/false);
  const auto found = PhraseReplay(job, cluster, {}, &library);
  ASSERT_TRUE(found.ok() && found->has_value());
  const graph::JobProgram whole = WriteOut(job);
  const auto expected = StageEvaluator::Create(whole)->Evaluate(cluster, {});
  ASSERT_TRUE(expected.ok());
  EXPECT_EQ((*found)->iteration_ns, expected->iteration_ns);
}

// The first iteration leaves a stream busy for which the next one waits at the end.
TEST(PhraseRepeat, is_none_where_a_stream_is_later_than_others) {
  constexpr uint16_t kSide = 1;
  TurnAndEnd stage;
  AddWork(0, 5, &stage.turn);
  AddWork(kSide, 1, &stage.turn);
  AddEvent(OpKind::kEventRecord, kSide, kSide, &stage.turn);
  AddEvent(OpKind::kEventWait, 0, kSide, &stage.end);
  AddWork(0, 1, &stage.end);
  AddEvent(OpKind::kEventRecord, 0, 0, &stage.end);
  AddEvent(OpKind::kEventWait, kSide, 0, &stage.end);
  AddWork(kSide, 500, &stage.end);
  stage.end.Append({.kind = OpKind::kStreamSync, .flags = kFree, .stream = 0});
  ExpectTimeOfWhole({stage});
}

TEST(PhraseRepeat, is_none_where_stages_have_a_pace_of_their_own) {
  std::vector<TurnAndEnd> stages(2);
  for (size_t s = 0; s < stages.size(); ++s) {
    AddWork(0, s == 0 ? 9 : 5, &stages[s].turn);
    AddWork(0, 1, &stages[s].end);
    stages[s].end.Append({.kind = OpKind::kDeviceSync, .flags = kFree});
  }
  ExpectTimeOfWhole(stages);
}

}  // namespace
}  // namespace prism::replayer
