// slicer/record/recorder.h: scripts of records become the program and memory of a rank.
#include <optional>
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

TEST(Recorder, builds_a_program_from_an_iteration) {
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

TEST(Recorder, sums_of_backward_passes_are_those_of_another_thread) {
  RecordScript script;
  script.CommInit(0, "", 4, 0, 2);
  for (int i = 0; i < 3; ++i) {
    script.Marker("iteration", true);
    script.Matmul(8);
    script.AllReduce(0, 100, 1);
    script.OnThread(1);
    script.InBackward(true);
    script.Matmul(8);
    script.InBackward(false);  // DistributedDataParallel's hook is none of the pass's ops
    script.AllReduce(0, 300, 1);
    script.OnThread(0);
    script.Marker("iteration", false);
  }
  const Result<graph::Fragment> fragment = RecordAll(script);
  ASSERT_TRUE(fragment.ok()) << fragment.status().message();
  ASSERT_EQ(fragment->comm_slots.size(), 1U);
  EXPECT_EQ(fragment->comm_slots[0].backward_sum_bytes, 300);
}

TEST(Recorder, warm_up_leaves_no_trace_in_the_fragment) {
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

TEST(Recorder, names_the_first_op_that_differs) {
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

TEST(Recorder, sees_a_different_name_behind_an_equal_id) {
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

// Three iterations of one op; in the last it is a different op with the same ids.
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

TEST(Recorder, sees_another_reduction_behind_an_equal_id) {
  EXPECT_THAT(WhyLastDiffers([](RecordScript* script, bool last) {
                script->AllReduce(3, 64, 0, last ? graph::ReduceOp::kMax : graph::ReduceOp::kSum);
              }),
              HasSubstr("iterations 1 and 2 differ at op 1"));
}

TEST(Recorder, sees_another_root_behind_an_equal_id) {
  EXPECT_THAT(WhyLastDiffers([](RecordScript* script, bool last) {
                script->Broadcast(3, last ? 1 : 0, 64, 0);
              }),
              HasSubstr("iterations 1 and 2 differ at op 1"));
}

TEST(Recorder, sees_other_members_behind_an_equal_slot) {
  EXPECT_THAT(WhyLastDiffers([](RecordScript* script, bool last) {
                script->Transfer(last ? 4 : 3, 0, true, 64, 0);  // rank 0 both times
                script->GroupEnd();
              }),
              HasSubstr("iterations 1 and 2 differ at op 1"));
}

TEST(Recorder, refuses_too_few_iterations) {
  const auto refusal = [](int complete) {
    RecordScript script = ScriptOfIterations(complete);
    script.Marker("iteration", true);
    AddOps(&script, 1024);
    return RecordAll(script).status().message();
  };
  EXPECT_THAT(refusal(1), HasSubstr("ran 1 complete iteration; at least 3 are needed; let it run"));
  EXPECT_THAT(refusal(2),
              HasSubstr("ran 2 complete iterations; at least 3 are needed; let it run"));
}

TEST(Recorder, keeps_what_lies_between_iterations_and_drops_the_end_of_the_program) {
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

TEST(Recorder, an_event_of_an_earlier_iteration_is_over) {
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

TEST(Recorder, groups_transfers_by_stream_and_resolves_peers) {
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

TEST(Recorder, refuses_a_group_without_members) {
  RecordScript script;
  script.CommInit(3, "mystery", 4, -1, 0);
  for (int i = 0; i < 3; ++i) {
    AddIteration(&script);
  }
  const Result<graph::Fragment> fragment = RecordAll(script);
  ASSERT_FALSE(fragment.ok());
  EXPECT_THAT(fragment.status().message(), HasSubstr("process group \"mystery\" (4 ranks)"));
}

TEST(Recorder, refuses_a_world_in_which_the_program_is_another_rank) {
  RecordScript script;
  script.CommInit(3, "default_pg", 8, 1, 1);
  for (int i = 0; i < 3; ++i) {
    AddIteration(&script);
  }
  Recorder recorder({.rank = Rank(0), .world_size = 8});
  ASSERT_TRUE(Feed(script, &recorder).ok());
  const Result<graph::Fragment> fragment = recorder.Finish();
  ASSERT_FALSE(fragment.ok());
  EXPECT_THAT(fragment.status().message(), HasSubstr("took another rank than RANK"));
}

TEST(Recorder, refuses_a_world_that_is_not_the_jobs) {
  RecordScript script;
  script.CommInit(3, "default_pg", 8, 0, 1);
  for (int i = 0; i < 3; ++i) {
    AddIteration(&script);
  }
  for (const int32_t world : {8, 16}) {
    Recorder recorder({.rank = Rank(0), .world_size = world});
    ASSERT_TRUE(Feed(script, &recorder).ok());
    const Result<graph::Fragment> fragment = recorder.Finish();
    EXPECT_EQ(fragment.ok(), world == 8);
    if (!fragment.ok()) {
      EXPECT_THAT(fragment.status().message(),
                  HasSubstr("a world of 8 ranks, but the job has 16; it must use the RANK"));
    }
  }
}

// dist.send without a group: torch creates a communicator of the two ranks.
TEST(Recorder, a_pair_of_the_world_is_no_world) {
  RecordScript script;
  script.CommInit(3, "default_pg", 2, 0, 4);
  for (int i = 0; i < 3; ++i) {
    AddIteration(&script);
  }
  Recorder recorder({.rank = Rank(0), .world_size = 8});
  ASSERT_TRUE(Feed(script, &recorder).ok());
  EXPECT_TRUE(recorder.Finish().ok());
}

TEST(Recorder, segments_of_one_iteration_alone_are_a_warning) {
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
  // The script's segments hold no block of an allocator.
  EXPECT_THAT(fragment->warnings,
              ElementsAre(::testing::Field(&graph::Warning::code, "allocator_not_seen"),
                          ::testing::Field(&graph::Warning::code, "segments_not_steady")));
}

TEST(Recorder, refuses_a_group_beyond_any_rank) {
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

TEST(Recorder, refuses_a_name_that_was_never_defined) {
  Recorder recorder({.rank = Rank(0)});
  channel::Record record = {};
  record.kind = RecordKind::kMarker;
  record.marker.name = 12;
  EXPECT_FALSE(recorder.Consume(record, {}).ok());
}

TEST(Recorder, a_group_that_is_named_late_has_its_name_from_the_next_iteration_on) {
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

// All counts of one code become one warning, with the most frequent detail.
TEST(Recorder, counters_of_one_code_are_one_warning) {
  RecordScript script;
  for (const auto& [name, count] : std::vector<std::pair<std::string, int64_t>>{
           {"results_assumed_true:aten::all", 2}, {"results_assumed_true:aten::equal", 5}}) {
    channel::Record record = {};
    record.kind = channel::RecordKind::kCounter;
    record.counter = {script.Define(channel::Table::kCounterName, name), count};
    script.Add(record);
  }
  for (int i = 0; i < 4; ++i) {
    script.Marker("iteration", true);
    script.Kernel("same");
    script.Marker("iteration", false);
  }
  const Result<graph::Fragment> fragment = RecordAll(script, 3);
  ASSERT_TRUE(fragment.ok()) << fragment.status().message();
  ASSERT_EQ(fragment->warnings.size(), 1U);
  EXPECT_EQ(fragment->warnings[0].code, "results_assumed_true");
  EXPECT_EQ(fragment->warnings[0].count, 7);
  EXPECT_EQ(fragment->warnings[0].example, "rank 3: aten::equal");
}

// NCCL's rank 0 of the group is rank 3 of the job: the last of the members in ascending order.
TEST(Recorder, a_root_counts_among_ascending_members) {
  RecordScript script;
  channel::Record init = {};
  init.kind = channel::RecordKind::kCommInit;
  const std::vector<int32_t> members = {3, 1, 0, 2};
  init.comm_init.comm = 1;
  init.comm_init.size = 4;
  init.comm_init.rank = 2;
  init.comm_init.payload_bytes = 4 * sizeof(int32_t);
  script.Add(init, members.data(), init.comm_init.payload_bytes);
  for (int i = 0; i < 3; ++i) {
    script.Marker("iteration", true);
    script.Broadcast(1, 0, 64, 2);
    script.Marker("iteration", false);
  }
  const Result<graph::Fragment> fragment = RecordAll(script);
  ASSERT_TRUE(fragment.ok()) << fragment.status().message();
  EXPECT_THAT(fragment->comm_slots[0].members, ElementsAre(Rank(0), Rank(1), Rank(2), Rank(3)));
  EXPECT_EQ(fragment->program.collectives[0].root, 3);
}

// What the previous iteration sent is waited for at once, or only in this one.
// `host_waits`: for the device, or for stream 0.
Result<graph::Fragment> SendAndWait(bool late, std::optional<channel::SyncKind> host_waits = {}) {
  RecordScript script;
  script.CommInit(1, "default_pg", 8, 0, 1);
  for (int i = 0; i < 4; ++i) {
    script.Marker("iteration", true);
    if (late) {
      script.Event(channel::RecordKind::kEventWait, 3, 0);
    }
    script.Kernel("gemm");
    script.AllReduce(1, 1 << 20, 2);
    script.Event(channel::RecordKind::kEventRecord, 3, 2);
    if (!late) {
      script.Event(channel::RecordKind::kEventWait, 3, 0);
    }
    if (host_waits) {
      channel::Record wait = {};
      wait.kind = channel::RecordKind::kSync;
      wait.sync.kind = *host_waits;
      script.Add(wait);
    }
    script.Marker("iteration", false);
  }
  return RecordAll(script, 0, 0);
}

TEST(Recorder, a_wait_for_communication_of_the_iteration_before_is_told) {
  const Result<graph::Fragment> late = SendAndWait(true);
  ASSERT_TRUE(late.ok()) << late.status().message();
  ASSERT_EQ(late->warnings.size(), 1U);
  EXPECT_EQ(late->warnings[0].code, "waits_across_iterations");
  EXPECT_EQ(late->warnings[0].count, 1);
  EXPECT_THAT(SendAndWait(false)->warnings, ::testing::IsEmpty());
  EXPECT_THAT(SendAndWait(true, channel::SyncKind::kDevice)->warnings, ::testing::IsEmpty())
      << "the host has waited";
  EXPECT_EQ(SendAndWait(true, channel::SyncKind::kStream)->warnings.size(), 1U)
      << "for another stream";
}

// As DistributedDataParallel does in its first ten steps, before the next forward pass.
TEST(Recorder, a_wait_to_read_a_time_is_not_told) {
  for (const bool reads_time : {false, true}) {
    RecordScript script;
    script.CommInit(1, "default_pg", 8, 0, 1);
    for (int i = 0; i < 4; ++i) {
      script.Marker("iteration", true);
      for (const uint32_t event : {3U, 4U}) {
        channel::Record wait = {};
        wait.kind = channel::RecordKind::kSync;
        wait.sync.kind = channel::SyncKind::kEvent;
        wait.sync.event = event;
        script.Add(wait);
      }
      if (reads_time) {
        channel::Record elapsed = {};
        elapsed.kind = channel::RecordKind::kElapsed;
        script.Add(elapsed);
      }
      script.Kernel("gemm");
      script.Event(channel::RecordKind::kEventRecord, 3, 2);
      script.AllReduce(1, 1 << 20, 2);
      script.Event(channel::RecordKind::kEventRecord, 4, 2);
      script.Marker("iteration", false);
    }
    EXPECT_EQ(RecordAll(script, 0, 0)->warnings.size(), reads_time ? 0U : 1U);
  }
}

// Stream 0 waits for stream 4, which has waited for the communication, so that is complete.
TEST(Recorder, a_wait_for_what_another_stream_has_waited_for_is_not_told) {
  for (const bool by_host : {false, true}) {
    RecordScript script;
    script.CommInit(1, "default_pg", 8, 0, 1);
    for (int i = 0; i < 4; ++i) {
      script.Marker("iteration", true);
      script.Event(channel::RecordKind::kEventWait, 3, 0);
      script.AllReduce(1, 1 << 20, 2);
      script.Event(channel::RecordKind::kEventRecord, 3, 2);
      script.Event(channel::RecordKind::kEventWait, 3, 4);
      script.Event(channel::RecordKind::kEventRecord, 5, 4);
      if (by_host) {
        channel::Record wait = {};
        wait.kind = channel::RecordKind::kSync;
        wait.sync.kind = channel::SyncKind::kStream;
        wait.stream = 4;
        script.Add(wait);
      } else {
        script.Event(channel::RecordKind::kEventWait, 5, 0);
      }
      script.Marker("iteration", false);
    }
    EXPECT_THAT(RecordAll(script, 0, 0)->warnings, ::testing::IsEmpty()) << by_host;
  }
}

}  // namespace
}  // namespace prism::slicer
