// Text workloads of ASTRA-sim and SimAI: what a pass over the layers becomes, and what is refused.
#include <algorithm>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "replayer/cost/collective_cost.h"
#include "replayer/engine/replay_options.h"
#include "replayer/engine/replay_result.h"
#include "replayer/replay.h"
#include "slicer/export/astra/layer_export.h"
#include "slicer/import/astra/workload_import.h"
#include "slicer/import/goal/goal_import.h"
#include "tests/support/test_parameters.h"

namespace prism::slicer {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

graph::ClusterSpec Cluster() {
  graph::ClusterSpec cluster = prism::testing::TestCluster();
  prism::testing::MakeFree(&cluster);
  return cluster;
}

Result<ImportResult> Import(const std::string& text,
                            int32_t ranks,
                            const LayerOptions& layers = {}) {
  ImportOptions options;
  options.cluster = Cluster();
  options.target_gpus = ranks;
  return ImportLayersText(text, "w.txt", options, layers);
}

DurationNs TimeOf(const graph::Graph& graph) {
  replayer::ReplayOptions options;
  options.iterations = 1;
  const Result<replayer::ReplayResult> result = replayer::Replay(graph, options);
  EXPECT_TRUE(result.ok()) << result.status().message();
  return result->steady_iteration_ns();
}

DurationNs CostOf(graph::CollectiveKind kind, int64_t bytes, int32_t ranks, int32_t stride) {
  const graph::ClusterSpec cluster = Cluster();
  std::vector<uint32_t> members;
  for (int32_t rank = 0; rank < ranks; ++rank) {
    members.push_back(static_cast<uint32_t>(rank * stride));
  }
  graph::CollectiveShape shape;
  shape.kind = kind;
  shape.bytes = bytes;
  shape.reduce = graph::ReduceOp::kSum;
  return replayer::CollectiveCost(cluster).Collective(
      shape, replayer::TopologyOf(members, cluster.gpus_per_node));
}

// Forward 1 + 2, then weight gradient 5 of the last layer, its input gradient 4, weight gradient 3
// of the first; the first layer's input gradient is not needed. The all_reduce of the last layer
// (at least as long as the compute beside it) delays that of the first.
TEST(LayerWorkload, data_parallel_reduces_beside_the_backward_pass) {
  const Result<ImportResult> result = Import(
      "DATA\n2\na -1 1 NONE 0 9 NONE 0 3 ALLREDUCE 4194304 0\n"
      "b -1 2 NONE 0 4 NONE 0 5 ALLREDUCE 4194304 0\n",
      2);
  ASSERT_TRUE(result.ok()) << result.status().message();
  EXPECT_EQ(result->graph.roles.size(), 1U);
  const DurationNs reduce = CostOf(graph::CollectiveKind::kAllReduce, 4194304, 2, 1);
  const DurationNs compute = 8 * kNsPerUs;
  const DurationNs second = std::max<DurationNs>(compute + reduce, compute + 7 * kNsPerUs);
  EXPECT_EQ(TimeOf(result->graph), second + reduce);
}

// tp 2 of neighbours: compute 10 and 20 and 30 ns, and between them an all_gather of 4 MiB in all
// and a reduce_scatter, which block.
TEST(LayerWorkload, simai_counts_nanoseconds_and_whole_buffers) {
  const Result<ImportResult> result = Import(
      "HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: 2 ep: 1 pp: 1 vpp: 1 ga: 1 "
      "all_gpus: 4 checkpoints: 0 checkpoint_initiates: 0 pp_comm 0\n1\n"
      "x\t-1\t10\tALLGATHER\t4194304\t20\tREDUCESCATTER\t4194304\t30\tNONE\t0\t100\n",
      0, {.dialect = LayerDialect::kSimAi, .dims = {}});
  ASSERT_TRUE(result.ok()) << result.status().message();
  EXPECT_EQ(result->graph.ranks.size(), 4U);
  EXPECT_EQ(result->graph.communicators.size(), 2U);
  EXPECT_EQ(TimeOf(result->graph),
            60 + CostOf(graph::CollectiveKind::kAllGather, 4194304, 2, 1) +
                CostOf(graph::CollectiveKind::kReduceScatter, 4194304, 2, 1));
}

TEST(LayerWorkload, numbers_may_have_a_fraction_and_times_another_unit) {
  const std::string text =
      "HYBRID_TRANSFORMER model_parallel_NPU_group: 2 all_gpus: 4 pp_comm: 8388608.0\n1\n"
      "x -1 10.0 BROADCAST 4096.0 20 NONE 0 30.9 NONE 0 100\n";
  const Result<ImportResult> result = Import(text, 0, {.dialect = LayerDialect::kSimAi});
  ASSERT_TRUE(result.ok()) << result.status().message();
  EXPECT_EQ(TimeOf(result->graph), 60 + CostOf(graph::CollectiveKind::kBroadcast, 4096, 2, 1));
  const Result<ImportResult> in_ns = Import("DATA\n1\nx -1 10 NONE 0 20 NONE 0 30 NONE 0 0\n", 1,
                                            {.dialect = LayerDialect::kAstra, .unit_ns = 1});
  EXPECT_EQ(TimeOf(in_ns->graph), 40);  // the first layer has no input gradient
}

// Layers 1 and 2 run forward again before the backward pass of layer 3.
TEST(LayerWorkload, layers_between_checkpoints_run_again) {
  const std::string head = "HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: 1 ";
  const std::string layers =
      "\n4\na -1 1 NONE 0 1 NONE 0 1 NONE 0 0\nb -1 10 NONE 0 1 NONE 0 1 NONE 0 0\n"
      "c -1 100 NONE 0 1 NONE 0 1 NONE 0 0\nd -1 1000 NONE 0 1 NONE 0 1 NONE 0 0\n";
  const LayerOptions simai = {.dialect = LayerDialect::kSimAi};
  const auto time = [&](const std::string& lists) {
    const Result<ImportResult> result = Import(head + lists + layers, 1, simai);
    EXPECT_TRUE(result.ok()) << result.status().message();
    return result.ok() ? TimeOf(result->graph) : 0;
  };
  EXPECT_EQ(time("checkpoints: 0 checkpoint_initiates: 0"), 1111 + 8);
  EXPECT_EQ(time("checkpoints: 2 1 3 checkpoint_initiates: 1 3"), 1111 + 8);
  EXPECT_EQ(time("checkpoints: 1 1 checkpoint_initiates: 1 3"), 1111 + 8 + 110);
  EXPECT_THAT(Import(head + "checkpoints: 0 checkpoint_initiates: 1 2" + layers, 1, simai)
                  .status()
                  .message(),
              HasSubstr("no layer before it is among the checkpoints"));
}

// The embeddings of layer 0 are exchanged beside layer 1, the last bottom one.
TEST(LayerWorkload, embeddings_are_exchanged_beside_the_bottom_layers) {
  const std::string text =
      "HYBRID_DLRM 1\n3\nembedding -1 1 ALLTOALL 4194304 1 ALLTOALL 4194304 1 NONE 0 0\n"
      "bottom -1 10 NONE 0 1 NONE 0 1 NONE 0 0\ntop -1 100 NONE 0 1 NONE 0 1 NONE 0 0\n";
  const LayerOptions simai = {.dialect = LayerDialect::kSimAi};
  const Result<ImportResult> result = Import(text, 2, simai);
  ASSERT_TRUE(result.ok()) << result.status().message();
  const DurationNs exchange = CostOf(graph::CollectiveKind::kAllToAll, 4194304, 2, 1);
  // 1, the exchange beside 10, 100, two gradients of the top; then its exchange beside the rest.
  EXPECT_EQ(TimeOf(result->graph), 1 + exchange + 100 + 2 + exchange);
}

TEST(LayerWorkload, experts_and_data_are_groups_of_the_stage) {
  const Result<ImportResult> result = Import(
      "HYBRID_TRANSFORMER model_parallel_NPU_group: 2 ep: 2 pp: 1\n1\n"
      "x -1 1 ALLTOALL_EP 4096 1 NONE 0 1 ALLREDUCE_DP_EP 4096 0\n",
      8);
  ASSERT_TRUE(result.ok()) << result.status().message();
  const graph::Graph& graph = result->graph;
  const auto comms = graph.ranks.comms(Rank(5));
  EXPECT_THAT(graph.communicators.members_of(CommId(comms[0])), ElementsAre(5U, 7U));
  EXPECT_THAT(graph.communicators.members_of(CommId(comms[1])), ElementsAre(1U, 5U));
}

TEST(LayerWorkload, dimensions_of_a_network_are_groups) {
  const std::string text =
      "HYBRID_DATA_MODEL\n1\nx -1 1 ALLREDUCE 4096 1 ALLREDUCE 4096 1 ALLREDUCE 8192 0\n";
  const Result<ImportResult> result =
      Import(text, 8, {.dialect = LayerDialect::kAstra, .dims = {2, 4}});
  ASSERT_TRUE(result.ok()) << result.status().message();
  EXPECT_EQ(result->graph.communicators.size(), 4U + 2U);
  EXPECT_THAT(Import(text, 8).status().message(), HasSubstr("name a network of two"));
}

TEST(LayerWorkload, refuses_what_is_wrong_and_says_where) {
  const auto error = [](const std::string& text) { return Import(text, 4).status().message(); };
  EXPECT_EQ(error(""),
            "w.txt:1: a kind of parallelism is expected, such as DATA or HYBRID_TRANSFORMER");
  EXPECT_EQ(error("HYBRID_CUSTOMIZED\n1\n"),
            "w.txt:1: the kind of parallelism 'HYBRID_CUSTOMIZED' is not supported");
  EXPECT_EQ(error("HYBRID_TRANSFORMER all_gpus: 8 ep: 1 all_gpus: 16\n1\n"),
            "w.txt:1: 'all_gpus' is there twice, as 8 and 16");
  EXPECT_EQ(error("HYBRID_DLRM x\n1\n"), "w.txt:1: 'x' is not a number for DLRM_LAST_BOTTOM_LAYER");
  EXPECT_EQ(error("HYBRID_TRANSFORMER checkpoints: 2 0\n1\n"),
            "w.txt:1: 'a layer of the list' has no number");
  EXPECT_EQ(error("DATA\nx\n"), "w.txt:2: a number of layers from 1 to 1048576 is expected");
  EXPECT_EQ(error("DATA\n2\na -1 1 NONE 0 1 NONE 0 1 NONE 0 0\n"),
            "w.txt:3: the file ends after 1 of 2 layers; is it cut off?");
  EXPECT_EQ(error("DATA\n1\na -1 1 NONE 0 1 NONE 0 1\n"),
            "w.txt:3: expected 12 columns for a layer, found 9");
  EXPECT_EQ(error("DATA\n1\na -1 1 NONE 0 1 NONE 0 1 NONE 0 0 DATA\n"),
            "w.txt:3: expected 12 columns for a layer, found 13");
  EXPECT_EQ(error("DATA all_gpus:\n1\n"), "w.txt:1: 'all_gpus' has no number");
  EXPECT_EQ(error("DATA\n1\na -1 1 NONE 0 1 NONE 0 1 NONE 0 x\n"),
            "w.txt:3: 'x' is not the time of an update");
  EXPECT_EQ(
      error("DATA\n1\na -1 1 NONE 0 1 NONE 0 1 NONE 0 0\n\nb -1 1 NONE 0 1 NONE 0 1 NONE 0 0"),
      "w.txt:5: there is a line after the 1 layers that the file announces");
  EXPECT_EQ(Import("DATA all_gpus: 2097152\n1\na -1 1 NONE 0 1 NONE 0 1 NONE 0 0\n", 0)
                .status()
                .message(),
            "w.txt:1: 2097152 ranks are more than the possible 1048576");
  EXPECT_EQ(error("DATA\n1\na -1 1 NONE 0 1 NONE 0 1 SHUFFLE 8 0\n"),
            "w.txt:3: the collective 'SHUFFLE' is not supported");
  EXPECT_EQ(
      error("HYBRID_TRANSFORMER model_parallel_NPU_group: 3\n1\na -1 1 NONE 0 1 NONE 0 1 NONE "
            "0 0\n"),
      "w.txt:1: 4 ranks do not divide into model parallel 3, pipeline parallel 1 and expert "
      "parallel "
      "1");
}

TEST(LayerWorkload, updates_are_left_out_and_counted) {
  const Result<ImportResult> result = Import("DATA\n1\na -1 1 NONE 0 1 NONE 0 1 NONE 0 100\n", 2);
  ASSERT_TRUE(result.ok()) << result.status().message();
  EXPECT_THAT(result->graph.assumptions, Contains("updates of layers take no time: 1"));
}

// The notes other than the unit of compute times.
std::vector<std::string> NotesOf(const std::string& text) {
  const Result<ImportResult> result = Import(text, 4, {.dialect = {}, .dims = {2, 2}});
  EXPECT_TRUE(result.ok()) << result.status().message();
  std::vector<std::string> lines = result->notes.Lines();
  std::erase_if(lines, [](const std::string& line) { return line.starts_with("layers have"); });
  return lines;
}

TEST(LayerWorkload, counts_what_the_kind_of_parallelism_leaves_out) {
  const std::string layer = "1\na -1 7 ALLREDUCE 64 7 ALLTOALL_EP 64 7 ALLREDUCE 64 0\n";
  const std::string no_collective =
      "collectives that the kind of parallelism does not have are left out";
  const std::string first =
      "input gradients of the first layer, which nothing needs, are left out: 1";
  EXPECT_THAT(NotesOf("DATA\n" + layer), ElementsAre(no_collective + ": 2", first));
  EXPECT_THAT(NotesOf("MODEL\n" + layer), ElementsAre(no_collective + ": 1", first));
  EXPECT_THAT(NotesOf("HYBRID_DATA_MODEL\n" + layer), ElementsAre(first));
  EXPECT_THAT(NotesOf("MICRO\n" + layer),
              ElementsAre(no_collective + ": 2",
                          "compute times are left out: a MICRO workload has none: 3"));
  EXPECT_THAT(NotesOf("HYBRID_TRANSFORMER model_parallel_NPU_group: 2\n" + layer),
              ElementsAre("collectives of groups of one rank are left out: 1"));
  EXPECT_THAT(NotesOf("HYBRID_TRANSFORMER model_parallel_NPU_group: 2 ep: 2\n" + layer),
              ElementsAre());
}

TEST(LayerWorkload, counts_what_the_head_says_and_nothing_takes) {
  const std::string layer = "1\na -1 7 NONE 0 7 NONE 0 7 NONE 0 0\n";
  const std::string pipeline = "header numbers about the pipeline (vpp, ga, pp_comm) are left out";
  const std::string others =
      "header numbers that the kind of parallelism does not use are left out";
  EXPECT_THAT(NotesOf("HYBRID_TRANSFORMER vpp: 1 ga: 1 pp_comm 0 all_gpus: 4\n" + layer),
              ElementsAre());
  EXPECT_THAT(NotesOf("HYBRID_TRANSFORMER vpp: 8 ga: 24 pp_comm 50331648 moe: 2\n" + layer),
              ElementsAre(pipeline + ": 3", others + ": 1"));
  EXPECT_THAT(NotesOf("HYBRID_DATA_MODEL ep: 2\n" + layer), ElementsAre(others + ": 1"));
}

// tp 2, dp 2, pp 2: a data parallel group is half of every second rank.
TEST(LayerExport, data_parallel_ranks_of_a_stage_are_no_experts) {
  const LayerOptions simai = {.dialect = LayerDialect::kSimAi, .dims = {}};
  const Result<ImportResult> result = Import(
      "HYBRID_TRANSFORMER model_parallel_NPU_group: 2 ep: 1 pp: 2 all_gpus: 8\n1\n"
      "a -1 10 ALLGATHER 4096 20 NONE 0 30 ALLREDUCE 8192 0\n",
      0, simai);
  ASSERT_TRUE(result.ok()) << result.status().message();
  ExportResult exported;
  const Result<std::string> written = SimAiText(result->graph, &exported);
  ASSERT_TRUE(written.ok()) << written.status().message();
  EXPECT_THAT(*written, HasSubstr("model_parallel_NPU_group: 2 ep: 1 pp: 2 vpp"));
  EXPECT_THAT(*written, HasSubstr("ALLREDUCE\t8192"));
  EXPECT_EQ(Import(*written, 0, simai)->graph.communicators.members,
            result->graph.communicators.members);
}

TEST(LayerExport, what_streams_do_beside_each_other_is_not_added_up) {
  ImportOptions options;
  options.cluster = Cluster();
  const Result<ImportResult> result = ImportGoalBytes(
      "num_ranks 1\nrank 0 {\na: calc 1000 cpu 0\nb: calc 700 cpu 1\nc: calc 500 cpu 2\n}\n",
      "x.goal", options);
  ASSERT_TRUE(result.ok()) << result.status().message();
  ExportResult exported;
  const Result<std::string> written = SimAiText(result->graph, &exported);
  ASSERT_TRUE(written.ok()) << written.status().message();
  EXPECT_THAT(*written, HasSubstr("\t1000\t"));
  EXPECT_THAT(exported.notes.Lines(), Contains(HasSubstr("busiest stream are left out: 2")));
}

// Forward exchanges among neighbours, backward too, and data-parallel reductions beside it: the
// written workload takes as long as the one that was read, with and without pipeline stages.
void ExpectReadBack(int32_t pp, int32_t ranks) {
  const std::string text = fmt::format(
      "HYBRID_TRANSFORMER model_parallel_NPU_group: 2 ep: 2 pp: {} all_gpus: {}\n2\n"
      "a -1 1000 ALLGATHER 4194304 2000 REDUCESCATTER 4194304 3000 ALLREDUCE 8388608 0\n"
      "b -1 4000 ALLTOALL_EP 1048576 5000 ALLTOALL_EP 1048576 6000 ALLREDUCE_DP_EP 8388608 0\n",
      pp, ranks);
  const LayerOptions simai = {.dialect = LayerDialect::kSimAi, .dims = {}};
  const Result<ImportResult> first = Import(text, 0, simai);
  ASSERT_TRUE(first.ok()) << first.status().message();
  EXPECT_EQ(first->graph.job.parallel,
            (graph::ParallelSizes{.tp = 2, .dp = ranks / (2 * pp), .pp = pp, .ep = 2}));
  ExportResult exported;
  const Result<std::string> written = SimAiText(first->graph, &exported);
  ASSERT_TRUE(written.ok()) << written.status().message();
  EXPECT_THAT(*written, HasSubstr(fmt::format(
                            "model_parallel_NPU_group: 2 ep: 2 pp: {} vpp: 1 ga: 1 all_gpus: {}",
                            pp, ranks)));
  EXPECT_THAT(*written, HasSubstr("ALLREDUCE_DP_EP\t8388608"));
  const Result<ImportResult> second = Import(*written, 0, simai);
  ASSERT_TRUE(second.ok()) << second.status().message();
  EXPECT_EQ(TimeOf(second->graph), TimeOf(first->graph));
  EXPECT_EQ(second->graph.communicators.members, first->graph.communicators.members);
}

TEST(LayerExport, what_is_read_back_takes_as_long) {
  ExpectReadBack(1, 8);
  ExpectReadBack(2, 16);
}

}  // namespace
}  // namespace prism::slicer
