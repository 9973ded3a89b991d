#include "graph/validate/validate.h"

#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/validate/limits.h"
#include "graph/validate/valid_graph.h"
#include "tests/support/planted_graph.h"
#include "tests/support/random_graph.h"

namespace prism::graph {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::PlantedGraph;

// Two ranks: markers, a kernel, two all_reduces, a message from 0 to 1.
PlantedGraph Sound() {
  PlantedGraph planted(2);
  planted.Communicator("dp", {0, 1}).Peer(0, 1).Peer(1, 0);
  for (uint32_t role = 0; role < 2; ++role) {
    planted.IterationMarker(role, true)
        .Kernel(role)
        .Collective(role, 0, 64)
        .Collective(role, 0, 128);
  }
  planted.Send(0, 0, 0, 32).Receive(1, 0, 0, 32);
  planted.IterationMarker(0, false).IterationMarker(1, false);
  return planted;
}

std::string Rule(const Validation& validation) {
  return validation.faults.empty() ? "" : validation.faults.front().rule;
}

TEST(Validate, a_sound_graph_passes) {
  const Validation validation = Validate(Sound().Build());
  EXPECT_TRUE(validation.ok()) << validation.faults.front().message;
}

TEST(Validate, random_graphs_that_can_run_pass) {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    const Validation validation = Validate(testing::RandomGraph(testing::RandomOptions(seed)));
    ASSERT_TRUE(validation.ok()) << "seed " << seed << ": " << validation.faults.front().message;
  }
}

TEST(Validate, other_bytes_on_one_member_are_told_with_both_sides) {
  Graph graph = Sound().Build();
  graph.roles[1].program.collectives[1].bytes = 256;
  const Validation validation = Validate(graph);
  ASSERT_EQ(validation.fault_count, 1);
  EXPECT_EQ(Rule(validation), "collective_mismatch");
  EXPECT_THAT(validation.faults[0].message,
              AllOf(HasSubstr("collective 1"), HasSubstr("rank 0 op 3: all_reduce"),
                    HasSubstr("128 bytes"), HasSubstr("rank 1 op 3"), HasSubstr("256 bytes")));
}

TEST(Validate, collectives_after_the_first_that_differs_are_not_compared) {
  Graph graph = Sound().Build();
  for (CollectiveShape& shape : graph.roles[1].program.collectives) {
    shape.bytes *= 2;
  }
  EXPECT_EQ(Validate(graph).fault_count, 1);
}

TEST(Validate, durations_that_sums_could_wrap_are_refused) {
  Graph graph = Sound().Build();
  Program& program = graph.roles[0].program;
  program.flags[1] |= kDurationFixed;
  program.value.Set(1, kMaxProgramNs);
  EXPECT_TRUE(Validate(graph).ok());
  program.Append({.kind = OpKind::kHostGap, .value = 1});
  EXPECT_EQ(Rule(Validate(graph)), "duration");
}

TEST(Validate, an_extra_collective_is_missed_on_the_other_side) {
  const Validation validation = Validate(Sound().Collective(1, 0, 8).Build());
  EXPECT_EQ(Rule(validation), "collective_missing");
  EXPECT_THAT(validation.faults[0].message,
              AllOf(HasSubstr("rank 1 op 6"), HasSubstr("rank 0 issues only 2")));
}

TEST(Validate, a_member_without_the_communicator_misses_its_collectives) {
  PlantedGraph planted(2);
  planted.Communicator("dp", {0, 1}).Collective(0, 0, 8);
  Graph graph = planted.Build();
  graph.ranks.comm_begin = {0, 1, 1};
  graph.ranks.comm_ids = {0};
  graph.roles[1].program.comm_slot_count = 0;
  EXPECT_EQ(Rule(Validate(graph)), "collective_missing");
}

TEST(Validate, an_unpaired_send_and_other_bytes_are_found) {
  EXPECT_EQ(Rule(Validate(Sound().Send(0, 0, 0, 8).Build())), "unpaired_send");
  EXPECT_EQ(Rule(Validate(Sound().Receive(0, 0, 0, 8).Build())), "unpaired_receive");
  EXPECT_EQ(Rule(Validate(Sound().Send(0, 0, 0, 8).Receive(1, 0, 0, 9).Build())),
            "transfer_mismatch");
}

TEST(Validate, a_wrong_peer_leaves_both_sides_unpaired) {
  PlantedGraph planted(3);
  planted.Communicator("pp", {0, 1, 2}).Peer(0, 1).Peer(1, 0).Peer(2, 0);
  planted.Send(0, 0, 0, 32).Receive(2, 0, 0, 32);  // 0 → 1, but 2 waits for it
  const Validation validation = Validate(planted.Build());
  EXPECT_EQ(validation.fault_count, 2);
  EXPECT_EQ(Rule(validation), "unpaired_send");
  EXPECT_THAT(validation.faults[0].message, HasSubstr("rank 1 has only 0"));
}

// Of four ranks in a ring (slot 0 the next, slot 1 the one before) one has its peers swapped.
TEST(Validate, the_slots_in_which_peers_have_each_other_count) {
  for (const bool swapped : {false, true}) {
    PlantedGraph planted(4, true);
    planted.Communicator("pp", {0, 1, 2, 3});
    planted.Peer(0, 1).Peer(0, 3).Peer(1, 2).Peer(1, 0).Peer(3, 0).Peer(3, 2);
    planted.Peer(2, swapped ? 1 : 3).Peer(2, swapped ? 3 : 1);
    planted.Transfers(0, {{true, 0, 0, 8}, {false, 0, 1, 8}});
    const Validation validation = Validate(planted.Build());
    EXPECT_EQ(validation.ok(), !swapped);
    EXPECT_EQ(Rule(validation), swapped ? "unpaired_send" : "");
  }
}

// Both send first, then receive; each send waits for the other's receive.
TEST(Validate, a_circle_of_sends_is_a_stall_that_names_both) {
  PlantedGraph planted(2);
  planted.Communicator("pp", {0, 1}).Peer(0, 1).Peer(1, 0);
  for (uint32_t role = 0; role < 2; ++role) {
    planted.Send(role, 0, 0, 8).Receive(role, 0, 0, 8);
  }
  const Validation validation = Validate(planted.Build());
  EXPECT_EQ(validation.fault_count, 2);
  EXPECT_EQ(Rule(validation), "stall");
  EXPECT_THAT(validation.faults[0].message, AllOf(HasSubstr("rank 0 op 0: send 8 bytes to rank 1"),
                                                  HasSubstr("waits for rank 1")));
  PlantedGraph grouped(2);
  grouped.Communicator("pp", {0, 1}).Peer(0, 1).Peer(1, 0);
  for (uint32_t role = 0; role < 2; ++role) {
    grouped.Transfers(role, {{true, 0, 0, 8}, {false, 0, 0, 8}});
  }
  EXPECT_TRUE(Validate(grouped.Build()).ok()) << "as one group the same is sound";
}

// NCCL buffers small sends: the job runs, but only because of that.
TEST(Validate, a_circle_of_small_sends_needs_their_buffers) {
  for (const int64_t bytes : {8, 64}) {
    PlantedGraph planted(2);
    planted.Communicator("pp", {0, 1}).Peer(0, 1).Peer(1, 0);
    for (uint32_t role = 0; role < 2; ++role) {
      planted.Send(role, 0, 0, bytes).Receive(role, 0, 0, bytes);
    }
    Graph graph = planted.Build();
    EXPECT_FALSE(RefuseInvalid(&graph).ok()) << "their size is not known";
    graph.cluster.parameters.Put({{"p2p.eager_bytes", 64, "byte", "", Mark::kAssumed}});
    EXPECT_EQ(RefuseInvalid(&graph).ok(), bytes == 8);
    EXPECT_EQ(RefuseInvalid(&graph).ok(), bytes == 8) << "a second time too";
    ASSERT_EQ(graph.warnings.size(), bytes == 8 ? 1U : 0U);
    if (bytes == 8) {
      EXPECT_EQ(graph.warnings[0].code, "buffered_sends_needed");
      EXPECT_EQ(graph.warnings[0].example.find("rank 0 op 0: send 8 bytes to rank 1"), 0U);
    }
  }
}

// Everyone sends to the one before and then receives: 0 waits for 2, 2 for 1, 1 for 0.
TEST(Validate, a_circle_is_told_in_the_order_of_who_waits_for_whom) {
  PlantedGraph planted(3);
  planted.Communicator("pp", {0, 1, 2});
  for (uint32_t role = 0; role < 3; ++role) {
    planted.Peer(role, (role + 2) % 3).Peer(role, (role + 1) % 3);
    planted.Send(role, 0, 0, 8).Receive(role, 0, 1, 8);
  }
  const Validation validation = Validate(planted.Build());
  ASSERT_EQ(validation.faults.size(), 3U);
  EXPECT_THAT(validation.faults[0].message, HasSubstr("waits for rank 2"));
  EXPECT_THAT(validation.faults[1].message, HasSubstr("waits for rank 1"));
  EXPECT_THAT(validation.faults[2].message, HasSubstr("waits for rank 0"));
}

// A stream that waits for another of its rank is not at fault: that other one is.
TEST(Validate, a_stall_names_the_stream_that_waits_for_a_peer) {
  PlantedGraph planted(2);
  planted.Communicator("pp", {0, 1}).Peer(0, 1).Peer(1, 0);
  for (uint32_t role = 0; role < 2; ++role) {
    planted.Transfers(role, {{true, 0, 0, 8}}, 1).Transfers(role, {{false, 0, 0, 8}}, 1);
    planted.Op(role, OpKind::kEventRecord, 1).Op(role, OpKind::kEventWait, 0, 2);
  }
  const Validation validation = Validate(planted.Build());
  ASSERT_EQ(validation.fault_count, 2);
  EXPECT_THAT(validation.faults[0].message, AllOf(HasSubstr("rank 0 op 0: send 8 bytes to rank 1"),
                                                  HasSubstr("waits for rank 1")));
}

// Two communicators used in opposite order on one stream.
TEST(Validate, crossed_communicators_stall_unless_on_two_streams) {
  for (const uint16_t stream : {uint16_t{0}, uint16_t{1}}) {
    PlantedGraph planted(2);
    planted.Communicator("a", {0, 1}).Communicator("b", {0, 1});
    planted.Collective(0, 0, 8).Collective(0, 1, 8, stream);
    planted.Collective(1, 1, 8, stream).Collective(1, 0, 8);
    const Validation validation = Validate(planted.Build());
    EXPECT_EQ(validation.ok(), stream == 1);
    EXPECT_EQ(Rule(validation), stream == 1 ? "" : "stall");
  }
}

TEST(Validate, crossed_communicators_of_one_group_run) {
  PlantedGraph planted(2);
  planted.Communicator("a", {0, 1}).Communicator("b", {0, 1});
  planted.Collective(0, 0, 8).Collective(0, 1, 8).Collective(1, 1, 8).Collective(1, 0, 8);
  Graph graph = planted.Build();
  graph.roles[0].program.flags[0] = kGroupedWithNext;
  graph.roles[1].program.flags[0] = kGroupedWithNext;
  EXPECT_TRUE(Validate(graph).ok());
}

// NCCL issues a group as a whole: what the host does in between never comes to its end.
TEST(Validate, a_wait_inside_a_group_is_a_stall) {
  for (const bool grouped : {false, true}) {
    PlantedGraph planted(1);
    planted.Communicator("a", {0}).Communicator("b", {0});
    planted.Collective(0, 0, 8).Op(0, OpKind::kStreamSync).Collective(0, 1, 8);
    Graph graph = planted.Build();
    graph.roles[0].program.flags[0] = grouped ? kGroupedWithNext : 0;
    EXPECT_EQ(Rule(Validate(graph)), grouped ? "stall" : "");
  }
}

// The host of rank 0 waits for a collective that rank 1 only issues after a message of rank 0.
TEST(Validate, a_host_wait_can_close_a_circle) {
  for (const OpKind wait : {OpKind::kStreamSync, OpKind::kDeviceSync, OpKind::kEventSync}) {
    PlantedGraph planted(2);
    planted.Communicator("dp", {0, 1}).Peer(0, 1).Peer(1, 0);
    planted.Collective(0, 0, 8).Op(0, OpKind::kEventRecord);
    planted.Op(0, wait, 0, wait == OpKind::kEventSync ? 1 : kNoDep);
    planted.Transfers(0, {{true, 0, 0, 8}}, 1);
    planted.Receive(1, 0, 0, 8).Collective(1, 0, 8);
    EXPECT_EQ(Rule(Validate(planted.Build())), "stall") << static_cast<int>(wait);
  }
}

TEST(Validate, dependencies_point_back_to_an_event_record) {
  PlantedGraph forward(1);
  forward.Op(0, OpKind::kEventWait, 0, 1).Op(0, OpKind::kEventRecord, 1);
  EXPECT_EQ(Rule(Validate(forward.Build())), "bad_dep");
  PlantedGraph no_event(1);
  no_event.Kernel(0).Op(0, OpKind::kEventWait, 1, 0);
  EXPECT_EQ(Rule(Validate(no_event.Build())), "bad_dep");
  PlantedGraph sound(1);
  sound.Op(0, OpKind::kEventRecord, 1)
      .Op(0, OpKind::kEventWait, 0, 0)
      .Op(0, OpKind::kEventSync, 0, 0);
  EXPECT_TRUE(Validate(sound.Build()).ok());
}

TEST(Validate, a_rank_must_be_a_member_of_its_communicators) {
  PlantedGraph planted(3);
  planted.Communicator("dp", {0, 1});
  Graph graph = planted.Build();
  graph.ranks.comm_begin = {0, 1, 2, 3};
  graph.ranks.comm_ids = {0, 0, 0};
  graph.roles[2].program.comm_slot_count = 1;
  EXPECT_EQ(Rule(Validate(graph)), "rank_not_in_communicator");
}

TEST(Validate, communicators_of_one_slot_must_not_overlap) {
  PlantedGraph planted(3, true);
  planted.Communicator("x", {0, 1}).Communicator("x", {1, 2});
  Graph graph = planted.Build();
  graph.ranks.comm_begin = {0, 1, 2, 3};
  graph.ranks.comm_ids = {0, 0, 1};
  graph.roles[0].program.comm_slot_count = 1;
  EXPECT_EQ(Rule(Validate(graph)), "communicators_overlap");
}

TEST(Validate, two_ranks_are_enough_for_an_overlap) {
  PlantedGraph planted(2, true);
  planted.Communicator("x", {0, 1}).Communicator("x", {0, 1});
  Graph graph = planted.Build();
  graph.ranks.comm_begin = {0, 1, 2};
  graph.ranks.comm_ids = {0, 1};
  graph.roles[0].program.comm_slot_count = 1;
  EXPECT_EQ(Rule(Validate(graph)), "communicators_overlap");
}

TEST(Validate, no_two_slots_of_a_rank_hold_the_same) {
  PlantedGraph peers(2);
  EXPECT_EQ(Rule(Validate(peers.Peer(0, 1).Peer(0, 1).Build())), "slot_duplicate");
  Graph graph = PlantedGraph(1).Communicator("a", {0}).Communicator("b", {0}).Build();
  graph.ranks.comm_ids = {1, 1};
  EXPECT_EQ(Rule(Validate(graph)), "slot_duplicate");
}

TEST(Validate, iteration_markers_agree) {
  EXPECT_EQ(Rule(Validate(Sound().IterationMarker(0, true).Build())), "marker_mismatch");
  Graph graph = Sound().Build();
  graph.roles[1].program.flags.back() = kMarkerBegin;
  EXPECT_EQ(Rule(Validate(graph)), "marker_mismatch");
}

TEST(Validate, what_is_out_of_range_is_named_and_stops_the_rest) {
  Graph graph = Sound().Build();
  graph.roles[0].program.signature[1] = 99;
  EXPECT_EQ(Rule(Validate(graph)), "id_range");
  graph = Sound().Build();
  graph.roles[0].program.signature.pop_back();
  EXPECT_EQ(Rule(Validate(graph)), "column_length");
  graph = Sound().Build();
  graph.ranks.comm_ids[0] = 7;
  EXPECT_EQ(Rule(Validate(graph)), "id_range");
  graph = Sound().Build();
  graph.roles[1].program.peer_slot_count = 2;
  EXPECT_EQ(Rule(Validate(graph)), "slot_count");
  graph = Sound().Build();
  for (Role& role : graph.roles) {
    role.program.collectives[1].bytes = -1;  // the members still agree
  }
  EXPECT_EQ(Rule(Validate(graph)), "id_range");
}

TEST(Validate, the_first_number_out_of_range_is_refused) {
  const auto rule = [](const std::function<void(Graph*)>& change) {
    Graph graph = Sound().Build();
    change(&graph);
    return Rule(Validate(graph));
  };
  EXPECT_EQ(rule([](Graph* graph) { graph->roles[0].program.stream[1] = 2; }), "id_range");
  EXPECT_EQ(rule([](Graph* graph) {
              for (Role& role : graph->roles) {
                role.program.collectives[0].root = -2;
              }
            }),
            "id_range");
  EXPECT_EQ(rule([](Graph* graph) {
              for (Role& role : graph->roles) {
                role.program.peer_groups[0].transfers[0].bytes = -1;
              }
            }),
            "id_range");
  EXPECT_EQ(rule([](Graph* graph) { graph->roles[1].representative = Rank(2); }), "id_range");
  EXPECT_EQ(rule([](Graph* graph) {
              graph->communicators.name[0] = static_cast<uint32_t>(graph->strings.size());
            }),
            "id_range");
  EXPECT_EQ(Rule(Validate(Sound().Communicator("of nobody", {}).Build())), "id_range");
}

TEST(Validate, all_faults_are_counted_and_some_listed) {
  Graph graph = Sound().Build();
  for (uint16_t& stream : graph.roles[0].program.stream) {
    stream = 50;
  }
  const Validation validation = Validate(graph, {.max_faults = 2});
  EXPECT_EQ(validation.faults.size(), 2U);
  EXPECT_EQ(validation.fault_count, 4);  // a kernel, two collectives, a send
}

}  // namespace
}  // namespace prism::graph
