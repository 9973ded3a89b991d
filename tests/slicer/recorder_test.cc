#include "slicer/record/recorder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "slicer/record/host_meter.h"
#include "tests/slicer/record_script.h"

namespace prism::slicer {
namespace {

using channel::RecordKind;
using graph::OpKind;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Status Feed(const RecordScript& script, Recorder* recorder) {
  for (const ScriptedRecord& scripted : script.records()) {
    PRISM_RETURN_IF_ERROR(recorder->Consume(scripted.record, scripted.payload));
  }
  return OkStatus();
}

Result<graph::Fragment> RecordAll(const RecordScript& script,
                                  uint32_t rank = 0,
                                  int32_t warmup = 1) {
  Recorder recorder({.rank = Rank(rank), .warmup_iterations = warmup});
  PRISM_RETURN_IF_ERROR(Feed(script, &recorder));
  return recorder.Finish();
}

// Kernel on the default stream, an event from there to stream 5, an all_reduce on it.
void AddOps(RecordScript* script, int64_t bytes) {
  script->Kernel("gemm", 0, script->Context("aten::mm", {4, 8}));
  script->Event(RecordKind::kEventRecord, 7, 0);
  script->Event(RecordKind::kEventWait, 7, 5);
  script->AllReduce(3, bytes, 5);
}

void AddIteration(RecordScript* script, int64_t bytes = 1024) {
  script->Marker("iteration", true);
  AddOps(script, bytes);
  script->Marker("iteration", false);
}

RecordScript ScriptOfIterations(int count) {
  RecordScript script;
  script.CommInit(3, "dp", 4, 0, 2);
  for (int i = 0; i < count; ++i) {
    AddIteration(&script);
  }
  return script;
}

TEST(Recorder, BuildsAProgramFromAnIteration) {
  const Result<graph::Fragment> fragment = RecordAll(ScriptOfIterations(3));
  ASSERT_TRUE(fragment.ok()) << fragment.status().message();
  const graph::Program& program = fragment->program;
  EXPECT_THAT(program.kind, ElementsAre(OpKind::kMarker, OpKind::kKernel, OpKind::kEventRecord,
                                        OpKind::kEventWait, OpKind::kCollective, OpKind::kMarker));
  EXPECT_THAT(program.stream, ElementsAre(0, 0, 0, 1, 1, 0));
  EXPECT_EQ(program.dep[3], 2U);
  EXPECT_EQ(program.stream_count, 2);
  EXPECT_THAT(fragment->strings, ElementsAre("", "iteration", "gemm", "aten::mm"));
  ASSERT_EQ(fragment->signatures.size(), 1U);
  EXPECT_THAT(fragment->signatures[0].inputs[0].dims, ElementsAre(4, 8));
  ASSERT_EQ(fragment->comm_slots.size(), 1U);
  EXPECT_EQ(fragment->comm_slots[0].name, "dp");
  EXPECT_THAT(fragment->comm_slots[0].members, ElementsAre(Rank(0), Rank(2), Rank(4), Rank(6)));
}

TEST(Recorder, HostTimeIsAddedUpByKindAfterWarmUp) {
  HostMeter meter;
  channel::Record record = {};
  record.kind = channel::RecordKind::kKernel;
  meter.Add(record);
  EXPECT_TRUE(meter.times().empty()) << "nothing was measured";
  record.host_ns = 1'000;
  meter.Add(record);
  record.kind = channel::RecordKind::kMatmul;
  record.host_ns = 3'000;
  meter.Add(record);
  EXPECT_EQ(meter.times()[static_cast<size_t>(OpKind::kKernel)], (graph::HostTime{2, 4'000}));
}

TEST(Recorder, WarmUpLeavesNoTraceInTheFragment) {
  RecordScript script;
  script.CommInit(1, "other", 2, 0, 1);
  script.CommInit(3, "dp", 4, 0, 2);
  script.Kernel("initialise", 9);
  script.Marker("iteration", true);
  script.Kernel("tune", 8);
  script.AllReduce(1, 8, 8);
  script.Marker("iteration", false);
  AddIteration(&script);
  AddIteration(&script);
  const Result<graph::Fragment> fragment = RecordAll(script);
  const Result<graph::Fragment> plain = RecordAll(ScriptOfIterations(3));
  ASSERT_TRUE(fragment.ok() && plain.ok());
  EXPECT_EQ(fragment->program, plain->program);
  EXPECT_EQ(fragment->strings, plain->strings);
  EXPECT_EQ(fragment->signatures, plain->signatures);
  EXPECT_EQ(fragment->comm_slots, plain->comm_slots);
}

TEST(Recorder, NamesTheFirstOpThatDiffers) {
  RecordScript script = ScriptOfIterations(2);
  AddIteration(&script, 2048);
  const Result<graph::Fragment> fragment = RecordAll(script);
  ASSERT_FALSE(fragment.ok());
  EXPECT_THAT(fragment.status().message(), HasSubstr("iterations 1 and 2 differ at op 4"));
  EXPECT_THAT(fragment.status().message(),
              HasSubstr("all_reduce (sum) of 1024 bytes float32 on "
                        "communicator dp of ranks 0, 2, 4, 6 on stream 1"));
  EXPECT_THAT(fragment.status().message(), HasSubstr("against all_reduce (sum) of 2048 bytes"));
}

TEST(Recorder, SeesADifferentNameBehindAnEqualId) {
  RecordScript script;
  for (const char* name : {"a", "a", "b"}) {
    script.Marker("iteration", true);
    script.Kernel(name);
    script.Marker("iteration", false);
  }
  const Result<graph::Fragment> fragment = RecordAll(script);
  ASSERT_FALSE(fragment.ok());
  EXPECT_THAT(fragment.status().message(), HasSubstr("differ at op 1: kernel a"));
}

// Three iterations of one op, whose last is another one under the same ids.
template <typename AddOp>
std::string WhyLastDiffers(AddOp add_op) {
  RecordScript script;
  script.CommInit(3, "dp", 4, 0, 2);
  script.CommInit(4, "tp", 4, 0, 1);
  for (int i = 0; i < 3; ++i) {
    script.Marker("iteration", true);
    add_op(&script, i == 2);
    script.Marker("iteration", false);
  }
  const Result<graph::Fragment> fragment = RecordAll(script);
  return fragment.ok() ? "nothing" : fragment.status().message();
}

TEST(Recorder, SeesAnotherReductionBehindAnEqualId) {
  EXPECT_THAT(WhyLastDiffers([](RecordScript* script, bool last) {
                script->AllReduce(3, 64, 0, last ? graph::ReduceOp::kMax : graph::ReduceOp::kSum);
              }),
              HasSubstr("iterations 1 and 2 differ at op 1"));
}

TEST(Recorder, SeesAnotherRootBehindAnEqualId) {
  EXPECT_THAT(WhyLastDiffers([](RecordScript* script, bool last) {
                script->Broadcast(3, last ? 1 : 0, 64, 0);
              }),
              HasSubstr("iterations 1 and 2 differ at op 1"));
}

TEST(Recorder, SeesOtherMembersBehindAnEqualSlot) {
  EXPECT_THAT(WhyLastDiffers([](RecordScript* script, bool last) {
                script->Transfer(last ? 4 : 3, 0, true, 64, 0);  // rank 0 both times
                script->GroupEnd();
              }),
              HasSubstr("iterations 1 and 2 differ at op 1"));
}

TEST(Recorder, RefusesTooFewIterations) {
  RecordScript script = ScriptOfIterations(2);
  script.Marker("iteration", true);
  AddOps(&script, 1024);
  const Result<graph::Fragment> fragment = RecordAll(script);
  ASSERT_FALSE(fragment.ok());
  EXPECT_THAT(fragment.status().message(), HasSubstr("ran 2 complete iterations"));
}

TEST(Recorder, KeepsWhatLiesBetweenIterationsAndDropsTheEndOfTheProgram) {
  RecordScript script;
  for (int i = 0; i < 3; ++i) {
    script.Marker("iteration", true);
    script.Marker("iteration", false);
    if (i < 2) {
      script.Kernel("between");
    }
  }
  script.Kernel("checkpoint");
  const Result<graph::Fragment> fragment = RecordAll(script);
  ASSERT_TRUE(fragment.ok()) << fragment.status().message();
  EXPECT_THAT(fragment->program.kind,
              ElementsAre(OpKind::kMarker, OpKind::kMarker, OpKind::kKernel));
}

TEST(Recorder, AnEventOfAnEarlierIterationIsOver) {
  RecordScript script;
  for (int i = 0; i < 3; ++i) {
    script.Marker("iteration", true);
    script.Event(RecordKind::kEventWait, 1, 2);
    script.Event(RecordKind::kEventRecord, 1, 0);
    script.Marker("iteration", false);
  }
  const Result<graph::Fragment> fragment = RecordAll(script);
  ASSERT_TRUE(fragment.ok()) << fragment.status().message();
  EXPECT_EQ(fragment->program.kind[1], OpKind::kEventWait);
  EXPECT_EQ(fragment->program.dep[1], graph::kNoDep);
}

TEST(Recorder, GroupsTransfersByStreamAndResolvesPeers) {
  RecordScript script;
  script.CommInit(1, "pp", 3, 5, 10);  // ranks 5, 15, 25
  for (int i = 0; i < 3; ++i) {
    script.Marker("iteration", true);
    script.Transfer(1, 2, true, 64, 4);
    script.Transfer(1, 1, false, 32, 4);
    script.GroupEnd();
    script.Marker("iteration", false);
  }
  const Result<graph::Fragment> fragment = RecordAll(script, 5);
  ASSERT_TRUE(fragment.ok()) << fragment.status().message();
  EXPECT_THAT(fragment->program.kind,
              ElementsAre(OpKind::kMarker, OpKind::kPeerGroup, OpKind::kMarker));
  EXPECT_THAT(fragment->peer_slots, ElementsAre(Rank(25), Rank(15)));
  ASSERT_EQ(fragment->program.peer_groups.size(), 1U);
  EXPECT_THAT(
      fragment->program.peer_groups[0].transfers,
      ElementsAre(graph::PeerTransfer{true, 0, 0, 64}, graph::PeerTransfer{false, 0, 1, 32}));
}

TEST(Recorder, RefusesAGroupWithoutMembers) {
  RecordScript script;
  script.CommInit(3, "mystery", 4, -1, 0);
  for (int i = 0; i < 3; ++i) {
    AddIteration(&script);
  }
  const Result<graph::Fragment> fragment = RecordAll(script);
  ASSERT_FALSE(fragment.ok());
  EXPECT_THAT(fragment.status().message(), HasSubstr("process group \"mystery\" (4 ranks)"));
}

TEST(Recorder, SegmentsOfOneIterationAloneAreAWarning) {
  RecordScript script = ScriptOfIterations(1);
  script.Marker("iteration", true);
  script.Segment(2 << 20);
  AddOps(&script, 1024);
  script.Marker("iteration", false);
  AddIteration(&script);
  const Result<graph::Fragment> fragment = RecordAll(script);
  ASSERT_TRUE(fragment.ok()) << fragment.status().message();
  EXPECT_EQ(fragment->program.size(), 6U);
  EXPECT_EQ(fragment->program.dep[3], 2U);
  ASSERT_EQ(fragment->warnings.size(), 1U);
  EXPECT_EQ(fragment->warnings[0].code, "segments_not_steady");
}

TEST(Recorder, RefusesAGroupBeyondAnyRank) {
  Recorder recorder({.rank = Rank(0)});
  channel::Record record = {};
  record.kind = RecordKind::kCommInit;
  record.comm_init.comm = 1;
  record.comm_init.size = 1 << 20;
  record.comm_init.global_stride = 1 << 20;
  const Status status = recorder.Consume(record, {});
  EXPECT_EQ(status.code(), StatusCode::kRunFailed);
  EXPECT_THAT(status.message(), HasSubstr("1048576 ranks reaches rank 1099510579200"));
}

TEST(Recorder, RefusesANameThatWasNeverDefined) {
  Recorder recorder({.rank = Rank(0)});
  channel::Record record = {};
  record.kind = RecordKind::kMarker;
  record.marker.name = 12;
  EXPECT_FALSE(recorder.Consume(record, {}).ok());
}

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

TEST(Recorder, AnOptimizerStepAfterTrainingBeginsAnIteration) {
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

TEST(Recorder, AStepThatRunsThePassesItselfBeginsAnIteration) {
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

// The two networks of a GAN; the first iteration of each warms up.
RecordScript StepsThatTakeTurns(int pairs) {
  RecordScript script;
  for (int i = 0; i < 2 * pairs; ++i) {
    script.Matmul(i < 2 ? 8 : i % 2 == 0 ? 16 : 32);
    script.Marker("Optimizer.step#Adam.step", true);
    script.Marker("Optimizer.step#Adam.step", false);
  }
  return script;
}

TEST(Recorder, StepsThatTakeTurnsAreFoundOutAndMakeOneIteration) {
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

TEST(Recorder, StepsThatNeverRepeatHaveNoPeriod) {
  RecordScript script;
  for (int i = 0; i < 16; ++i) {
    script.Matmul(16 + i);
    script.Marker("Optimizer.step#Adam.step", true);
    script.Marker("Optimizer.step#Adam.step", false);
  }
  Recorder recorder({.rank = Rank(0), .warmup_iterations = 0});
  ASSERT_TRUE(Feed(script, &recorder).ok());
  EXPECT_FALSE(recorder.Finish().ok());
  EXPECT_EQ(recorder.period(), std::nullopt);
}

TEST(Recorder, AGroupThatIsNamedLateHasItsNameFromTheNextIterationOn) {
  RecordScript script;
  script.CommInit(3, "", 4, 0, 2);
  for (int i = 0; i < 3; ++i) {
    AddIteration(&script);
    if (i == 0) {
      script.CommName(3, "mesh_cp");
    }
  }
  const Result<graph::Fragment> fragment = RecordAll(script);
  ASSERT_TRUE(fragment.ok()) << fragment.status().message();
  ASSERT_EQ(fragment->comm_slots.size(), 1U);
  EXPECT_EQ(fragment->comm_slots[0].name, "mesh_cp");
}

TEST(Recorder, ARangeOfTheProgramsOwnGoesBeforeOptimizerSteps) {
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

TEST(Recorder, IterationsThatDifferInSegmentsAloneWillDoWhenTheProgramEndsInsideOfOne) {
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
  ASSERT_EQ(fragment->warnings.size(), 1U);
  EXPECT_EQ(fragment->warnings[0].code, "segments_not_steady");
}

TEST(Recorder, AProgramThatEndsInsideOfAnIterationIsToldWhereTheOnesBeforeDiffer) {
  RecordScript script;
  for (const int32_t size : {16, 32, 64, 128}) {
    AddTraining(&script, size);
  }
  const Result<graph::Fragment> fragment = RecordAll(script, 0, 0);
  ASSERT_FALSE(fragment.ok());
  EXPECT_THAT(fragment.status().message(), HasSubstr("iterations 1 and 2 differ at op"));
}

TEST(Recorder, AnOddIterationAmongSteadyOnesEndsThemAndIsAWarning) {
  RecordScript script;
  for (const bool logs : {false, false, false, false, true, false}) {
    AddTraining(&script, 16, logs);
  }
  const Result<graph::Fragment> fragment = RecordAll(script, 0, 0);
  ASSERT_TRUE(fragment.ok()) << fragment.status().message();
  EXPECT_EQ(fragment->iterations, 3) << "the fourth logs";
  ASSERT_EQ(fragment->warnings.size(), 1U);
  EXPECT_EQ(fragment->warnings[0].code, "odd_iteration");
  EXPECT_THAT(fragment->warnings[0].example, HasSubstr("iteration 3 of rank 0 has kernel mean"));
}

// As torch.profiler numbers its steps: the range ends, and the next one begins, behind each step.
TEST(Recorder, RangesThatAreNumberedByStepAreKeptButNotCompared) {
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

// DistributedDataParallel times its first ten steps and no later one.
TEST(Recorder, StepsThatTakeTurnsAreFoundBeforeTheLastOneChanges) {
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

TEST(Recorder, AProgramThatEndsTooEarlyIsAskedForMoreSteps) {
  RecordScript script;
  for (const int32_t size : {16, 32, 64, 128}) {
    AddTraining(&script, size);
  }
  EXPECT_THAT(RecordAll(script, 0, 0).status().message(), HasSubstr("let it run more steps"));
}

TEST(Recorder, AProgramThatNeverRepeatsIsExplained) {
  RecordScript script;
  for (int i = 0; i < 16; ++i) {
    AddTraining(&script, 16, i % 2 == 0);
  }
  const Result<graph::Fragment> fragment = RecordAll(script, 0, 0);
  ASSERT_FALSE(fragment.ok());
  EXPECT_THAT(fragment.status().message(), HasSubstr("iterations 12 and 13 differ at op"));
  EXPECT_THAT(fragment.status().message(), HasSubstr("mean"));
  EXPECT_THAT(fragment.status().message(), testing::Not(HasSubstr("more steps")));
}

}  // namespace
}  // namespace prism::slicer
