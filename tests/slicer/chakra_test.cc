// Chakra traces: what is read, what is refused and where.
#include <algorithm>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launch/inputs/network_cluster.h"
#include "launch/inputs/topology_times.h"
#include "slicer/export/chakra/chakra_export.h"
#include "slicer/export/goal/goal_export.h"
#include "slicer/import/astra/network_file.h"
#include "slicer/import/astra/simai_topology.h"
#include "slicer/import/chakra/chakra_import.h"
#include "slicer/import/chakra/process_groups.h"
#include "slicer/import/chakra/trace_file.h"
#include "slicer/import/goal/goal_import.h"
#include "tests/support/test_parameters.h"

namespace prism::slicer {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

ChakraNode Compute(uint64_t id, uint64_t micros, const std::vector<uint64_t>& deps = {}) {
  ChakraNode node;
  node.id = id;
  node.name = "compute";
  node.type = ChakraType::kCompute;
  node.duration_us = micros;
  node.data_deps = deps;
  return node;
}

ChakraNode Collective(uint64_t id, ChakraCollective kind, int64_t bytes) {
  ChakraNode node;
  node.id = id;
  node.name = "collective";
  node.type = ChakraType::kCollective;
  node.collective = static_cast<int64_t>(kind);
  node.bytes = bytes;
  return node;
}

std::string Trace(const std::vector<ChakraNode>& nodes) {
  std::string bytes;
  AppendChakraHead(&bytes);
  for (const ChakraNode& node : nodes) {
    AppendChakraNode(node, &bytes);
  }
  return bytes;
}

Result<ImportResult> Import(const std::vector<std::string>& traces,
                            int32_t target_gpus = 0,
                            const ChakraOptions& chakra = {}) {
  ImportOptions options;
  options.cluster = prism::testing::TestCluster();
  options.target_gpus = target_gpus;
  std::vector<TraceSource> sources;
  for (size_t rank = 0; rank < traces.size(); ++rank) {
    sources.push_back({"x." + std::to_string(rank) + ".et", traces[rank]});
  }
  return ImportChakraBytes(sources, options, chakra);
}

std::string ErrorOf(const std::vector<std::string>& traces) {
  const Result<ImportResult> result = Import(traces);
  EXPECT_FALSE(result.ok());
  EXPECT_EQ(result.status().code(), StatusCode::kBadFile);
  return result.status().message();
}

const graph::CollectiveShape& FirstShape(const ImportResult& result) {
  return result.graph.roles.front().program.collectives.front();
}

// The bytes that ASTRA-sim's own generator writes for an all_gather of 1 MiB per rank: comm_size is
// one rank's part, while ours is the gathered side.
TEST(ChakraImport, reads_what_others_write) {
  const std::string trace(
      "\x07\x0a\x05"
      "0.0.4"
      "\x35\x12\x01"
      "g\x18\x07"
      "\x52\x0e\x0a\x09is_cpu_op\xd8\x01\x00"
      "\x52\x0d\x0a\x09"
      "comm_typeH\x02"
      "\x52\x0f\x0a\x09"
      "comm_sizeH\x80\x80\x40",
      8 + 54);
  const Result<ImportResult> result = Import({trace, trace});
  ASSERT_TRUE(result.ok()) << result.status().message();
  EXPECT_EQ(FirstShape(*result).kind, graph::CollectiveKind::kAllGather);
  EXPECT_EQ(FirstShape(*result).bytes, 2 << 20);
  EXPECT_EQ(result->graph.roles.size(), 1U);
}

// As chakra_jsonizer prints messages, and as one list of nodes; the same as in the protobuf's
// bytes.
TEST(ChakraImport, json_is_read_as_what_it_prints) {
  const std::string printed = R"({ "version": "0.0.4" }
    { "name": "a", "type": "COMP_NODE", "durationMicros": "7",
      "attr": [{ "name": "is_cpu_op", "boolVal": false }] }
    { "id": "1", "name": "c", "type": "COMM_COLL_NODE", "dataDeps": ["0"],
      "attr": [{ "name": "comm_type", "int64Val": "2" }, { "name": "comm_size", "int64Val": "64" }]
    })";
  const std::string listed = R"({ "workload_graph": [
    { "Id": 0, "Name": "a", "NodeType": 4, "runtime": 7, "is_cpu_op": 0 },
    { "Id": 1, "Name": "c", "NodeType": 7, "data_deps": [0], "comm_type": 2, "comm_size": 64 }]})";
  ChakraNode gather = Collective(1, ChakraCollective::kAllGather, 64);
  gather.data_deps = {0};
  const Result<ImportResult> bytes = Import({Trace({Compute(0, 7), gather})}, 4);
  ASSERT_TRUE(bytes.ok()) << bytes.status().message();
  for (const std::string& json : {printed, listed}) {
    const Result<ImportResult> result = Import({json}, 4);
    ASSERT_TRUE(result.ok()) << result.status().message();
    EXPECT_EQ(result->tasks, bytes->tasks);
    EXPECT_EQ(FirstShape(*result), FirstShape(*bytes));
    EXPECT_EQ(result->graph.roles.front().program.size(),
              bytes->graph.roles.front().program.size());
    EXPECT_EQ(result->notes.Lines(), bytes->notes.Lines());
  }
  EXPECT_THAT(ErrorOf({R"({"id": 1, "name": "a")"}), HasSubstr("as JSON"));
  EXPECT_THAT(ErrorOf({R"([{"id": 1}, [5]])"}), HasSubstr("no object"));
}

// What ASTRA-sim computes: num_ops / min(rate of the memory × num_ops / tensor_size, peak), in
// whole nanoseconds. Here 1e9 / min(2e12, 1e14) s = 500,000 ns, and 1e9 / 1e14 s = 10,000 ns.
TEST(ChakraImport, nodes_that_say_their_work_take_the_time_of_a_roofline) {
  const auto trace = [](const std::string& first) {
    return R"([{ "id": 0, "name": "few a byte", "type": 4, )" + first +
           R"("num_ops": 1000000000, "tensor_size": 1000000000 },
        { "id": 1, "name": "many", "type": 4, "num_ops": 1e9, "tensor_size": "1000" },
        { "id": 2, "name": "without size", "type": 4, "num_ops": 1000000000 },
        { "id": 3, "name": "of the host", "type": 4, "num_ops": 5, "tensor_size": 5,
          "is_cpu_op": true }])";
  };
  const auto times = [&](const std::string& json, const ChakraOptions& chakra) {
    const Result<ImportResult> result = Import({json}, 1, chakra);
    EXPECT_TRUE(result.ok()) << result.status().message();
    std::vector<int64_t> kernels;
    const graph::Program& program = result->graph.roles.front().program;
    for (uint32_t op = 0; op < program.size(); ++op) {
      if (program.kind[op] == graph::OpKind::kKernel) {
        kernels.push_back(program.value[op]);
      }
    }
    std::ranges::sort(kernels);
    return kernels;
  };
  ChakraOptions chakra;
  EXPECT_THAT(times(trace(""), chakra), ElementsAre(0, 0, 0, 0));
  chakra.roofline = {1e14, 2e12, 0, true, "roofline"};
  EXPECT_THAT(times(trace(""), chakra), ElementsAre(0, 0, 10'000, 500'000));
  EXPECT_THAT(times(trace(R"("duration_micros": 7, )"), chakra),
              ElementsAre(0, 0, 10'000, 500'000));
  chakra.roofline.of_all = false;  // the cluster's
  chakra.roofline.shortest_ns = 20'000;
  EXPECT_THAT(times(trace(R"("duration_micros": 7, )"), chakra),
              ElementsAre(0, 7'000, 20'000, 20'000));
}

TEST(ChakraImport, one_trace_serves_any_number_of_equal_ranks) {
  ChakraNode reduce = Collective(1, ChakraCollective::kAllReduce, 4096);
  reduce.data_deps = {0};
  const Result<ImportResult> result = Import({Trace({Compute(0, 5), reduce})}, 1000);
  ASSERT_TRUE(result.ok()) << result.status().message();
  EXPECT_EQ(result->graph.ranks.size(), 1000U);
  EXPECT_EQ(result->graph.roles.size(), 1U);
  EXPECT_EQ(result->graph.communicators.members_of(CommId(0)).size(), 1000U);
  EXPECT_EQ(result->tasks, 2000);
}

TEST(ChakraImport, dimensions_of_the_network_give_groups) {
  EXPECT_THAT(GroupAlong(5, {2, 4}, {true, false}), ElementsAre(4U, 5U));
  EXPECT_THAT(GroupAlong(5, {2, 4}, {false, true}), ElementsAre(1U, 3U, 5U, 7U));
  EXPECT_EQ(GroupAlong(5, {2, 4}, {true, true, true}).size(), 8U);
  EXPECT_EQ(GroupLeader(5, {2, 4}, {true, false}), 4U);
  EXPECT_EQ(GroupLeader(5, {2, 4}, {false, true}), 1U);
}

TEST(ChakraImport, refuses_what_is_wrong_and_says_where) {
  EXPECT_EQ(ErrorOf({Trace({Compute(0, 5, {7})})}),
            "x.0.et: node 0 waits for node 7, which is not in the file; is it cut off?");
  EXPECT_EQ(ErrorOf({Trace({Compute(3, 5), Compute(3, 5)})}), "x.0.et: two nodes have the id 3");
  EXPECT_THAT(ErrorOf({Trace({Compute(0, 5, {1}), Compute(1, 5, {0})})}), HasSubstr("in a circle"));
  EXPECT_EQ(ErrorOf({Trace({Collective(0, static_cast<ChakraCollective>(77), 5)})}),
            "x.0.et: node 0 ('collective'): its comm_type is 77");
  EXPECT_THAT(ErrorOf({Trace({Collective(0, ChakraCollective::kAllReduce, 8)}),
                       Trace({Collective(0, ChakraCollective::kAllReduce, 9)})}),
              HasSubstr("collective_mismatch"));
  const std::string whole = Trace({Compute(0, 5)});
  EXPECT_EQ(ErrorOf({whole.substr(0, whole.size() - 1)}),
            "x.0.et: byte 8: a message of 29 bytes, but only 28 follow; is the file cut off?");
  EXPECT_EQ(ErrorOf({std::string(1000, '\0')}),
            "x.0.et: has an empty node; is it an execution trace (.et)?");
  EXPECT_THAT(ErrorOf({Trace({Compute(17, 5, {23}), Compute(23, 5, {17})})}),
              HasSubstr("node 17: "));
  ProcessGroups groups;
  EXPECT_EQ(ReadGroupFile("{\"1\": " + std::string(300'000, '[') + std::string(300'000, ']') + "}",
                          "g.json", 4, &groups)
                .message(),
            "g.json: group 1: a list or object is not one of the 4 ranks");
}

TEST(ChakraImport, sizes_and_durations_that_are_missing_are_not_nothing) {
  ChakraNode sum = Collective(0, ChakraCollective::kAllReduce, 8);
  sum.bytes.reset();
  EXPECT_EQ(ErrorOf({Trace({sum})}),
            "x.0.et: node 0 ('collective'): its comm_size is missing or not a whole number");
  ChakraNode barrier = Collective(0, ChakraCollective::kBarrier, 0);
  barrier.bytes.reset();
  ChakraNode timed = Compute(1, 0);
  timed.duration_ns = 0;
  const Result<ImportResult> result = Import({Trace({barrier, timed, Compute(2, 0)})});
  ASSERT_TRUE(result.ok()) << result.status().message();
  EXPECT_THAT(result->graph.assumptions,
              Contains("compute nodes without a duration take no time: 1"));
}

// Both ranks send before they receive, and wait for their send: only a buffer lets them continue.
TEST(ChakraImport, sends_that_no_receiver_awaits_are_buffered) {
  const auto exchange = [](int64_t own, int64_t other) {
    ChakraNode send;
    send.name = "send";
    send.type = ChakraType::kSend;
    send.bytes = int64_t{1} << 30;
    send.source = own;
    send.destination = other;
    ChakraNode receive = send;
    receive.id = 1;
    receive.type = ChakraType::kReceive;
    receive.source = other;
    receive.destination = own;
    receive.data_deps = {0};
    return Trace({send, receive});
  };
  const Result<ImportResult> result = Import({exchange(0, 1), exchange(1, 0)});
  ASSERT_TRUE(result.ok()) << result.status().message();
  EXPECT_THAT(result->graph.assumptions,
              Contains(HasSubstr("waits for a send end when the send begins")));
}

// The highest possible tag, and a communicator without one.
TEST(GoalExport, no_communicator_gets_the_tag_that_means_any) {
  ImportOptions options;
  options.cluster = prism::testing::TestCluster();
  Result<ImportResult> tagged = ImportGoalBytes(
      "num_ranks 2\nrank 0 {\nsend 8b to 1 tag 4294967294\nsend 8b to 1 tag 5\n}\n"
      "rank 1 {\nrecv 8b from 0 tag 4294967294\nrecv 8b from 0 tag 5\n}\n",
      "tags.goal", options);
  ASSERT_TRUE(tagged.ok()) << tagged.status().message();
  std::replace(tagged->graph.strings.begin(), tagged->graph.strings.end(), std::string("tag 5"),
               std::string("a group"));
  std::string text;
  const Result<ExportResult> written =
      WriteGoal(tagged->graph, GoalForm::kText, [&text](std::string_view piece) {
        text += piece;
        return OkStatus();
      });
  ASSERT_TRUE(written.ok()) << written.status().message();
  EXPECT_THAT(text, HasSubstr("tag 4294967294"));
  EXPECT_THAT(text, Not(HasSubstr("4294967295")));
}

// Two tasks per level, both beginning after both of the previous level: 2^40 paths through 41
// levels.
TEST(ChakraExport, waits_for_begins_are_followed_once) {
  std::string text = "num_ranks 1\nrank 0 {\n";
  for (int level = 0; level <= 40; ++level) {
    for (const int own : {0, 1}) {
      text += fmt::format("l{}: calc 10 cpu {}\n", 2 * level + own + 1, own);
      for (const int before : {0, 1}) {
        text += level == 0 ? ""
                           : fmt::format("l{} irequires l{}\n", 2 * level + own + 1,
                                         2 * level + before - 1);
      }
    }
  }
  ImportOptions options;
  options.cluster = prism::testing::TestCluster();
  const Result<ImportResult> tasks = ImportGoalBytes(text + "}\n", "levels.goal", options);
  ASSERT_TRUE(tasks.ok()) << tasks.status().message();
  Notes notes;
  int64_t nodes = 0;
  ChakraNumbers numbers;
  EXPECT_TRUE(ChakraTrace(tasks->graph, Rank(0), &numbers, &notes, &nodes).ok());
  EXPECT_EQ(nodes, 82);
}

TEST(AstraNetwork, reads_both_forms_and_refuses_the_rest) {
  const auto network = ParseAstraNetwork(
      "topology: [ Ring, Switch ]\nnpus_count: [ 8, 16 ]\nbandwidth: [ 400.0, 50 ]  # GB/s\n"
      "latency: [ 936.25, 500.0 ]\n",
      "n.yml");
  ASSERT_TRUE(network.ok()) << network.status().message();
  EXPECT_THAT(network->ranks, ElementsAre(8, 16));
  EXPECT_DOUBLE_EQ(network->bandwidth[0], 400.0 * (1 << 30));  // as ASTRA-sim takes a GB
  EXPECT_DOUBLE_EQ(network->latency[0], 936.25e-9);
  EXPECT_EQ(ParseAstraNetwork(AstraNetworkText(*network), "n.yml")->bandwidth, network->bandwidth);
  EXPECT_EQ(ParseAstraNetwork(AstraNetworkText(*network), "n.yml")->ranks, network->ranks);
  EXPECT_THAT(ParseAstraNetwork("{\n \"logical-dims\": [\"8\",\"2\"]\n}", "n.json")->ranks,
              ElementsAre(8, 2));
  EXPECT_EQ(ParseAstraNetwork("npus_count: [ 8.5 ]", "n.yml").status().message(),
            "n.yml:1: 8.5 is not a number of ranks");
  EXPECT_EQ(ParseAstraNetwork("npus: [ 8 ]", "n.yml").status().message(),
            "n.yml:1: unknown key 'npus'");
  EXPECT_EQ(ParseAstraNetwork("npus_count: [ 8 ]\nlatency: [ 1, 2 ]", "n.yml").status().message(),
            "n.yml:2: npus_count has 1 dimensions, but another key has 2");
  EXPECT_THAT(ParseAstraNetwork("npus_count: [ 8 ] 2", "n.yml").status().message(),
              HasSubstr("n.yml:1: there is more after the list"));
  EXPECT_EQ(ParseAstraNetwork("topology: [ Torus ]\nnpus_count: [ 8 ]", "n.yml").status().message(),
            "n.yml:1: the topology 'Torus' is unknown; choose one of Ring, FullyConnected, Switch");
}

TEST(AstraNetwork, reads_lists_and_values_however_they_are_spelled) {
  for (const std::string text :
       {"topology: Switch\nnpus_count: 8\nbandwidth: 50.0\nlatency: 500\n",
        "topology:\n  - Switch\nnpus_count:\n- 8\nbandwidth:\n  - 50.0 # GB/s\nlatency: [ 500 ]\n",
        "topology: [\n Switch\n]\nnpus_count: [ 8,\n ]\nbandwidth: [ 50.0 ]\nlatency: [ 500 ]\n",
        "{\"topology\": [\"Switch\"], \"npus_count\": [8], \"bandwidth\": [50.0], \"latency\": "
        "[500]}",
        "{\"topology\": \"Switch\", \"npus_count\": 8,\n \"bandwidth\": 50.0, \"latency\": "
        "500}\n"}) {
    const auto network = ParseAstraNetwork(text, "n");
    ASSERT_TRUE(network.ok()) << text << network.status().message();
    EXPECT_THAT(network->topology, ElementsAre("Switch")) << text;
    EXPECT_THAT(network->ranks, ElementsAre(8)) << text;
    EXPECT_THAT(network->bandwidth, ElementsAre(50.0 * (1 << 30))) << text;
    EXPECT_THAT(network->latency, ElementsAre(::testing::DoubleEq(500e-9))) << text;
  }
}

TEST(AstraNetwork, reads_the_keys_of_its_first_version) {
  const auto network = ParseAstraNetwork(
      R"({"topology-name": "Hierarchical", "topologies-per-dim": ["Ring", "Switch"],
          "units-count": [4, 2], "links-count": [4, 3], "link-latency": [500, 700],
          "link-bandwidth": [50, 25], "hbm-scale": [0, 0]})",
      "n.json");
  ASSERT_TRUE(network.ok()) << network.status().message();
  EXPECT_THAT(network->topology, ElementsAre("Ring", "Switch"));
  EXPECT_THAT(network->ranks, ElementsAre(4, 2));
  EXPECT_THAT(network->bandwidth, ElementsAre(100.0 * (1 << 30), 75.0 * (1 << 30)));
  EXPECT_DOUBLE_EQ(network->latency[1], 700e-9);
  EXPECT_EQ(network->ignored, 2);
  const auto marked = ParseAstraNetwork("\xEF\xBB\xBF---\nnpus_count: [ 8 ]\n...\n", "n.yml");
  ASSERT_TRUE(marked.ok()) << marked.status().message();
  EXPECT_THAT(marked->ranks, ElementsAre(8));
}

// Of 8 MiB on eight ranks: a ring passes eighths on fourteen times, a full connection twice.
TEST(AstraNetwork, collectives_take_the_time_of_the_topology) {
  const auto time = [](const std::string& topology) {
    graph::Graph graph =
        Import(std::vector<std::string>(
                   8, Trace({Collective(1, ChakraCollective::kAllReduce, 8 << 20)})))
            ->graph;
    Notes notes;
    launch::UseTopologies({{topology}, {8}, {1e9 * 1.048576}, {1e-6}}, {}, &graph, &notes);
    const graph::Program& program = graph.roles.front().program;
    const auto op = std::ranges::find(program.kind, graph::OpKind::kCollective);
    return program.value[static_cast<size_t>(op - program.kind.begin())];
  };
  EXPECT_EQ(time("Ring"), 14 * 1'001'000);
  EXPECT_EQ(time("FullyConnected"), 2 * 1'001'000);
  EXPECT_EQ(time("Switch"), 2 * (7 * 1'000'000 + 3 * 2'000));
}

TEST(ChakraImport, a_group_that_no_file_describes_is_named) {
  ChakraNode of_group = Collective(1, ChakraCollective::kAllReduce, 64);
  of_group.group = "7";
  EXPECT_TRUE(Import({Trace({of_group}), Trace({of_group})}).ok());
  EXPECT_THAT(Import({Trace({of_group}), Trace({Compute(1, 5)})}).status().message(),
              HasSubstr("pg_name 7 is described by no file: --groups FILE"));
  ChakraNode of_other = of_group;
  of_other.group = "9";  // the first of several is named
  EXPECT_THAT(Import({Trace({of_group}), Trace({of_other, Compute(2, 5)})}).status().message(),
              HasSubstr("pg_name 7 is described"));
}

TEST(ChakraImport, a_cpu_node_that_wraps_a_collective_is_host_work) {
  ChakraNode wrapper = Collective(1, ChakraCollective::kAllReduce, 64);
  wrapper.bytes.reset();
  EXPECT_THAT(Import({Trace({wrapper})}).status().message(), HasSubstr("comm_size is missing"));
  wrapper.on_cpu = true;
  const Result<ImportResult> result = Import({Trace({wrapper})});
  ASSERT_TRUE(result.ok()) << result.status().message();
  EXPECT_THAT(result->notes.Lines(), Contains(HasSubstr("are host work: 1")));
}

TEST(ChakraImport, a_file_of_one_byte_is_no_trace) {
  EXPECT_THAT(Import({std::string(1, '\0')}).status().message(),
              HasSubstr("neither a version nor nodes"));
}

// TestCluster has two GPUs per node. 2^30 byte/s are one GB/s in ASTRA-sim.
TEST(AstraNetwork, is_written_in_the_unit_that_it_is_read_in) {
  const AstraNetwork network = {{"Switch"}, {8}, {300.0 * (1 << 30)}, {1e-6}};
  EXPECT_THAT(AstraNetworkText(network), HasSubstr("bandwidth: [ 300 ]"));
}

TEST(AstraNetwork, a_cluster_is_nodes_and_what_is_between_them) {
  const graph::ClusterSpec cluster = prism::testing::TestCluster();
  Notes notes;
  const AstraNetwork network = NetworkOf(cluster, 8, &notes);
  EXPECT_THAT(network.ranks, ElementsAre(2, 4));
  EXPECT_DOUBLE_EQ(network.bandwidth[0], 50e9);
  EXPECT_DOUBLE_EQ(network.bandwidth[1], 50e9);
  EXPECT_GE(network.latency[1], network.latency[0]);
  EXPECT_THAT(ParseAstraNetwork(AstraNetworkText(network), "n.yml")->ranks, ElementsAre(2, 4));
  EXPECT_THAT(NetworkOf(cluster, 2, &notes).ranks, ElementsAre(2));
  EXPECT_TRUE(notes.counts().empty());
}

// Three ranks of TestCluster are a node and a half; the slower of the two kinds of link is kept.
TEST(AstraNetwork, ranks_that_fill_no_nodes_have_the_slower_rate) {
  graph::ClusterSpec cluster = prism::testing::TestCluster();
  cluster.parameters.SetValue("net.nic_bytes_per_s", 1e10);
  Notes notes;
  const AstraNetwork whole = NetworkOf(cluster, 4, &notes);
  EXPECT_TRUE(notes.counts().empty());
  ASSERT_LT(whole.bandwidth[1], whole.bandwidth[0]);
  const AstraNetwork network = NetworkOf(cluster, 3, &notes);
  EXPECT_THAT(network.ranks, ElementsAre(3));
  EXPECT_THAT(network.bandwidth, ElementsAre(whole.bandwidth[1]));
  EXPECT_THAT(network.latency, ElementsAre(whole.latency[1]));
  EXPECT_EQ(notes.counts().size(), 1U);
}

// Two servers of two GPUs: an NVSwitch each (4, 5), and two switches (6, 7) of the network.
TEST(SimAiTopology, gives_servers_and_the_rates_of_a_gpu) {
  const std::string text =
      "8 2 2 2 8 H100\n4 5 6 7\n"
      "0 4 2880Gbps 0.000025ms 0\n1 4 2880Gbps 0.000025ms 0\n"
      "2 5 2880Gbps 0.000025ms 0\n3 5 2880Gbps 0.000025ms 0\n"
      "0 6 200Gbps 0.0005ms 0\n0 7 200Gbps 0.0005ms 0\n2 6 400Gbps 0.0005ms 0\n"
      "3 7 400Gbps 0.0005ms 0\n";
  ASSERT_TRUE(IsSimAiTopology(text));
  const auto network = ParseSimAiTopology(text, "t");
  ASSERT_TRUE(network.ok()) << network.status().message();
  EXPECT_THAT(network->ranks, ElementsAre(2, 2));
  EXPECT_THAT(network->bandwidth, ElementsAre(360e9, 50e9));
  EXPECT_DOUBLE_EQ(network->latency[1], 0.5e-6);
  EXPECT_EQ(ParseSimAiTopology(text.substr(0, 120), "t").status().message(),
            "t:6: a link is: from, to, bandwidth, latency, error rate");
  EXPECT_EQ(ParseSimAiTopology("8 3 2 2 8 H100\n", "t").status().message(),
            "t:1: 4 GPUs do not fill servers of 3 GPUs");
}

}  // namespace
}  // namespace prism::slicer
