// Edits that need a different program, on synthesised jobs and random graphs: an edit and its
// reverse, bounds that always hold, and jobs that were synthesised in the edited form.
#include "slicer/edit/program_edit.h"

#include <algorithm>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include "graph/base/intern.h"
#include "graph/validate/validate.h"
#include "replayer/engine/replay_options.h"
#include "replayer/replay.h"
#include "slicer/synthesize/expand.h"
#include "slicer/synthesize/synthesize.h"
#include "tests/support/random_graph.h"
#include "tests/support/small_job.h"
#include "tests/support/test_parameters.h"
#include "tests/support/tiny_graph.h"

namespace prism::slicer {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::SmallJob;

graph::Graph Synthesised(const graph::JobSpec& job, const graph::TrainingStyle& style = {}) {
  graph::ClusterSpec cluster = testing::TestCluster();
  testing::MakeFree(&cluster);
  return *Expand(*Synthesize(job, style), cluster);
}

DurationNs TimeOf(const graph::Graph& graph) {
  const graph::Validation validation = graph::Validate(graph);
  EXPECT_TRUE(validation.ok()) << validation.faults.front().message;
  return replayer::Replay(graph, {})->steady_iteration_ns();
}

EditedGraph Edited(const graph::Graph& graph, const std::vector<ProgramEditStep>& steps) {
  Result<EditedGraph> edited = ApplyProgramEdits(graph, steps);
  EXPECT_TRUE(edited.ok()) << edited.status().message();
  return *std::move(edited);
}

std::string Refusal(const graph::Graph& graph, const ProgramEditStep& step) {
  return ApplyProgramEdits(graph, {step}).status().message();
}

int64_t OpsOf(const graph::Graph& graph, graph::OpKind kind) {
  const std::vector<graph::OpKind>& kinds = graph.roles.front().program.kind;
  return std::count(kinds.begin(), kinds.end(), kind);
}

TEST(ProgramEdit, overlap_off_waits_and_on_takes_it_back) {
  const graph::Graph graph = Synthesised(SmallJob());
  const EditedGraph off = Edited(graph, {OverlapEdit{{"dp", {}}, false}});
  EXPECT_GT(TimeOf(off.graph), TimeOf(graph));
  const EditedGraph on = Edited(off.graph, {OverlapEdit{{"dp", {}}, true}});
  EXPECT_EQ(on.graph.roles, graph.roles);
  EXPECT_THAT(on.assumptions.front(), HasSubstr("; 0 more are waited for at once"));
}

TEST(ProgramEdit, overlap_off_where_nothing_overlaps_changes_nothing) {
  graph::TrainingStyle style;
  style.overlap_grad_reduce = false;
  const graph::Graph graph = Synthesised(SmallJob(), style);
  const OverlapEdit off = {{"dp", graph::CollectiveKind::kReduceScatter}, false};
  EXPECT_EQ(Edited(graph, {off}).graph.roles, graph.roles);
  const OverlapEdit on = {{"dp", graph::CollectiveKind::kReduceScatter}, true};
  EXPECT_THAT(Refusal(graph, on), HasSubstr("shown to be safe: its collectives run on the"));
  EXPECT_THAT(Refusal(Synthesised(SmallJob()), on), HasSubstr("is already on"));
}

// Without a pipeline it does not matter where in the backward pass the sums are waited for: the
// compute stream has the same work.
TEST(ProgramEdit, overlap_off_takes_as_long_as_a_job_without_overlap) {
  graph::TrainingStyle style;
  style.overlap_grad_reduce = false;
  const DurationNs expected = TimeOf(Synthesised(SmallJob(), style));
  const EditedGraph off = Edited(
      Synthesised(SmallJob()), {OverlapEdit{{"dp", graph::CollectiveKind::kReduceScatter}, false}});
  EXPECT_NEAR(static_cast<double>(TimeOf(off.graph)) / static_cast<double>(expected), 1, 1e-3);
}

// From a cold start: later iterations may begin later by more than they end later.
RC_GTEST_PROP(ProgramEdit, overlap_off_is_never_faster, ()) {
  graph::Graph graph =
      testing::RandomGraph(testing::RandomOptions(*rc::gen::arbitrary<uint64_t>()));
  graph.cluster = testing::TestCluster();
  testing::MakeFree(&graph.cluster);
  const uint32_t comms = graph.communicators.size();
  RC_PRE(comms > 0U);
  const uint32_t comm = *rc::gen::inRange<uint32_t>(0, comms);
  const std::string name = graph.string(StringId(graph.communicators.name[comm]));
  const Result<EditedGraph> off = ApplyProgramEdits(graph, {OverlapEdit{{name, {}}, false}});
  if (!off.ok()) {
    RC_ASSERT(off.status().message().find("communicator") != std::string::npos);
    return;
  }
  RC_ASSERT(graph::Validate(off->graph).ok());
  replayer::ReplayOptions once;
  once.iterations = 1;
  RC_ASSERT(replayer::Replay(off->graph, once)->steady_iteration_ns() >=
            replayer::Replay(graph, once)->steady_iteration_ns());
}

TEST(ProgramEdit, buckets_split_and_merged_again_take_the_same_time) {
  const graph::Graph graph = Synthesised(SmallJob());
  const CollectiveChoice dp = {"dp", {}};
  const EditedGraph split = Edited(graph, {BucketEdit{.of = dp, .split = 3}});
  EXPECT_NE(TimeOf(split.graph), TimeOf(graph));
  const EditedGraph merged = Edited(split.graph, {BucketEdit{.of = dp, .merge = 3}});
  EXPECT_EQ(TimeOf(merged.graph), TimeOf(graph));
  EXPECT_EQ(OpsOf(merged.graph, graph::OpKind::kCollective),
            OpsOf(graph, graph::OpKind::kCollective));
}

TEST(ProgramEdit, buckets_of_a_few_bytes_are_refused) {
  const graph::Graph graph = Synthesised(SmallJob());
  EXPECT_THAT(Refusal(graph, BucketEdit{.of = {"dp", {}}, .bytes = 4}), HasSubstr("larger parts"));
  EXPECT_THAT(Refusal(graph, BucketEdit{.of = {"dp", {}}, .split = int64_t{1} << 21}),
              HasSubstr("larger parts"));
}

// Two calls of 1 MiB on stream 1, the first waited for after the second or before it.
TEST(ProgramEdit, merges_what_nobody_waits_for_in_between) {
  using testing::Collective;
  using testing::Kernel;
  using testing::Record;
  using testing::Wait;
  const std::vector<testing::TinyOp> apart = {Collective(1, 0, 10), Record(1), Collective(1, 0, 10),
                                              Wait(0, 1), Kernel(0, 5)};
  const std::vector<testing::TinyOp> between = {Collective(1, 0, 10), Record(1), Wait(0, 1),
                                                Collective(1, 0, 10), Kernel(0, 5)};
  const graph::Graph graph = testing::TinyGraph({apart, apart});
  const std::string name = graph.string(StringId(graph.communicators.name[0]));
  const BucketEdit merge = {.of = {name, {}}, .merge = 2};
  const graph::Program merged = Edited(graph, {merge}).graph.roles.front().program;
  ASSERT_THAT(merged.kind, ElementsAre(graph::OpKind::kEventRecord, graph::OpKind::kCollective,
                                       graph::OpKind::kEventRecord, graph::OpKind::kEventWait,
                                       graph::OpKind::kKernel));
  EXPECT_EQ(merged.dep[3], 2U);
  EXPECT_EQ(merged.collectives[merged.signature[1]].bytes,
            2 * graph.roles.front().program.collectives.front().bytes);
  EXPECT_THAT(Refusal(testing::TinyGraph({between, between}), merge), HasSubstr("can be merged"));
}

// Of 24 weights that were buckets by themselves DDP makes one small first bucket and pairs, if two
// of them reach the cap; none is ever divided.
TEST(ProgramEdit, buckets_close_when_they_reach_the_cap) {
  std::vector<testing::TinyOp> ops;
  for (int i = 0; i < 24; ++i) {
    ops.push_back(testing::Collective(1, 0, 10));
  }
  graph::Graph graph = testing::TinyGraph({ops, ops});
  const std::string name = graph.string(StringId(graph.communicators.name[0]));
  constexpr int64_t kMiB = 1 << 20;
  for (graph::Role& role : graph.roles) {
    for (graph::CollectiveShape& shape : role.program.collectives) {
      shape.bytes = 64 * kMiB;
    }
  }
  const auto buckets = [&](int64_t cap) {
    return OpsOf(Edited(graph, {BucketEdit{.of = {name, {}}, .bytes = cap}}).graph,
                 graph::OpKind::kCollective);
  };
  EXPECT_EQ(buckets(100 * kMiB), 12);
  graph.job.user_program = true;
  EXPECT_EQ(buckets(100 * kMiB), 13);
  EXPECT_EQ(buckets(64 * kMiB), 24);
  EXPECT_EQ(buckets(1 << 30), 3);
}

// Adam that loops over its parameters, as torch.optim.Adam(foreach=False).
TEST(ProgramEdit, an_optimizer_that_loops_over_parameters_is_recognised) {
  std::vector<testing::TinyOp> ops;
  constexpr const char* kUpdate[] = {"aten::lerp_", "aten::mul_", "aten::addcmul_", "aten::sqrt",
                                     "aten::div",   "aten::add_", "aten::addcdiv_"};
  constexpr int kParameters = 3;
  for (size_t i = 0; i < kParameters * std::size(kUpdate); ++i) {
    ops.push_back(testing::Kernel(0, 5));
  }
  graph::Graph graph = testing::TinyGraph({ops});
  graph.signatures.clear();
  for (const char* op : kUpdate) {
    graph::KernelSignature signature;
    signature.framework_op = StringId(InternValue(graph.strings, std::string(op)));
    signature.name = signature.framework_op;
    signature.inputs = {{DataType::kFloat32, {512, 256}}};
    graph.signatures.push_back(signature);
  }
  graph::Program& program = graph.roles.front().program;
  for (uint32_t op = 0; op < program.size(); ++op) {
    program.signature[op] = op % static_cast<uint32_t>(std::size(kUpdate));
  }
  const EditedGraph edited = Edited(graph, {OptimizerEdit{OptimizerKind::kSgd}});
  EXPECT_EQ(OpsOf(edited.graph, graph::OpKind::kKernel), kParameters);
  EXPECT_THAT(edited.assumptions.front(), HasSubstr("sgd instead of adam"));
  EXPECT_THAT(edited.memory.front(), HasSubstr("instead of 3"));
}

TEST(ProgramEdit, says_which_communicators_can_overlap) {
  const graph::Graph graph = Synthesised(SmallJob());
  EXPECT_THAT(Refusal(graph, OverlapEdit{{"", {}}, true}),
              HasSubstr("of is missing: the communicator whose collectives are meant; the job has "
                        "dp, tp, world"));
  graph::JobSpec job = SmallJob();
  job.parallel = {.tp = 1, .dp = 2, .pp = 2};
  EXPECT_THAT(Refusal(Synthesised(job), OverlapEdit{{"pp", {}}, true}),
              HasSubstr("only sends and receives"));
}

TEST(ProgramEdit, a_job_that_keeps_its_activations_is_one_that_recomputes_without_that) {
  const DurationNs kept = TimeOf(Synthesised(SmallJob()));
  for (const graph::Recompute recompute : {graph::Recompute::kFull, graph::Recompute::kSelective}) {
    graph::JobSpec job = SmallJob();
    job.recompute = recompute;
    graph::TrainingStyle style;
    style.recompute_parts = graph::kRecomputeCoreAttention | graph::kRecomputeNorm;
    const graph::Graph graph = Synthesised(job, style);
    const DurationNs before = TimeOf(graph);
    const DurationNs after = TimeOf(Edited(graph, {RecomputeEdit{}}).graph);
    EXPECT_GT(before, kept);
    // A recomputed layer sums gradients of its input into a new tensor, others in place.
    EXPECT_NEAR(static_cast<double>(after) / static_cast<double>(kept), 1, 5e-3)
        << graph::RecomputeName(recompute);
  }
  EXPECT_THAT(Refusal(Synthesised(SmallJob()), RecomputeEdit{}), HasSubstr("repeat a forward"));
}

TEST(ProgramEdit, recompute_of_one_layer_goes_alone) {
  graph::JobSpec job = SmallJob();
  job.recompute = graph::Recompute::kFull;
  const graph::Graph graph = Synthesised(job);
  const auto kernels = [](const EditedGraph& edited) {
    return OpsOf(edited.graph, graph::OpKind::kKernel);
  };
  const int64_t before = OpsOf(graph, graph::OpKind::kKernel);
  const int64_t all = before - kernels(Edited(graph, {RecomputeEdit{"*"}}));
  EXPECT_GT(all, 0);
  EXPECT_EQ((before - kernels(Edited(graph, {RecomputeEdit{"layer 2"}}))) * SmallJob().model.layers,
            all);
  EXPECT_THAT(Refusal(graph, RecomputeEdit{"layer 9"}), HasSubstr("'layer 9'"));
}

// One rank of a pipeline's first stage holds as many micro-batches as there are stages.
TEST(ProgramEdit, recompute_tells_what_is_kept) {
  graph::JobSpec job = SmallJob();
  job.recompute = graph::Recompute::kFull;
  job.parallel = {.pp = 2};
  job.global_batch_size = 8;
  const graph::Graph graph = Synthesised(job);
  const auto memory = [&](const std::string& layer, int64_t bytes) {
    return Edited(graph, {RecomputeEdit{layer, bytes}}).memory.front();
  };
  EXPECT_THAT(memory("*", int64_t{1} << 20),
              HasSubstr("4 MiB more for activations on a rank of role 'stage 0': 1 MiB per layer "
                        "and micro-batch, at most 4 of which are kept at once"));
  EXPECT_THAT(memory("layer 0", int64_t{1} << 20),
              HasSubstr("at most 2 of which are kept at once"));
  EXPECT_THAT(memory("*", 0), HasSubstr("not known"));
}

TEST(ProgramEdit, another_optimizer_moves_other_bytes) {
  const graph::Graph graph = Synthesised(SmallJob());
  const EditedGraph sgd = Edited(graph, {OptimizerEdit{OptimizerKind::kSgd}});
  EXPECT_LT(TimeOf(sgd.graph), TimeOf(graph));
  EXPECT_THAT(sgd.memory, ElementsAre(HasSubstr("take 0 B instead of")));
  // Lion reads and writes 5 numbers where SGD does 3, in as many launches.
  const EditedGraph lion = Edited(graph, {OptimizerEdit{OptimizerKind::kLion}});
  EXPECT_EQ(OpsOf(lion.graph, graph::OpKind::kKernel), OpsOf(sgd.graph, graph::OpKind::kKernel));
  EXPECT_GT(TimeOf(lion.graph), TimeOf(sgd.graph));
  EXPECT_THAT(Refusal(graph, OptimizerEdit{OptimizerKind::kAdam}), HasSubstr("already adam"));
  EXPECT_THAT(Refusal(graph, OptimizerEdit{OptimizerKind::kMuon}), HasSubstr("whole matrices"));
  const EditedGraph adam = Edited(sgd.graph, {OptimizerEdit{OptimizerKind::kAdam}});
  EXPECT_EQ(TimeOf(adam.graph),
            TimeOf(Edited(lion.graph, {OptimizerEdit{OptimizerKind::kAdam}}).graph));
  EXPECT_GT(TimeOf(adam.graph), TimeOf(lion.graph));
}

TEST(ProgramEdit, states_of_another_optimizer_can_be_offloaded) {
  const graph::Graph graph = Synthesised(SmallJob());
  const OffloadEdit offload = {.kind = OffloadKind::kOptimizer};
  const auto moved = [&](const std::vector<ProgramEditStep>& steps) {
    const EditedGraph edited = Edited(graph, steps);
    int64_t bytes = 0;
    const graph::Program& program = edited.graph.roles.front().program;
    for (uint32_t op = 0; op < program.size(); ++op) {
      bytes += (program.flags[op] & graph::kDeviceToHost) != 0 && program.stream[op] != 0
                   ? program.value[op]
                   : 0;
    }
    return bytes;
  };
  const int64_t adam = moved({offload});
  EXPECT_GT(adam, 0);
  for (const OptimizerKind kind : {OptimizerKind::kLion, OptimizerKind::kSgdMomentum}) {
    EXPECT_EQ(2 * moved({OptimizerEdit{kind}, offload}), adam);
  }
  EXPECT_THAT(
      ApplyProgramEdits(graph, {OptimizerEdit{OptimizerKind::kSgd}, offload}).status().message(),
      HasSubstr("recognised"));
}

TEST(ProgramEdit, offloaded_states_cost_what_their_copies_leave_exposed) {
  graph::Graph graph = Synthesised(SmallJob());
  constexpr double kRate = 1e9;  // so slow that hardly anything hides the copies
  graph.cluster.parameters.SetValue("gpu.copy_bytes_per_s", kRate);
  const OffloadEdit offload = {.kind = OffloadKind::kOptimizer, .prefetch = 1};
  const EditedGraph edited = Edited(graph, {offload});
  int64_t bytes = 0;
  const graph::Program& program = edited.graph.roles.front().program;
  for (uint32_t op = 0; op < program.size(); ++op) {
    if ((program.flags[op] & graph::kDeviceToHost) != 0 && program.stream[op] != 0) {
      bytes += program.value[op];
    }
  }
  EXPECT_GT(bytes, 0);
  // Copying the largest piece in and out is sequential; at most everything is.
  const double seconds = SecondsFromNs(TimeOf(edited.graph) - TimeOf(graph));
  EXPECT_GT(seconds, 1.5 * static_cast<double>(bytes) / kRate);
  EXPECT_LT(seconds, 2 * static_cast<double>(bytes) / kRate);
  EXPECT_LE(
      TimeOf(edited.graph),
      TimeOf(Edited(graph, {OffloadEdit{.kind = OffloadKind::kOptimizer, .prefetch = 0}}).graph));
}

TEST(ProgramEdit, states_that_are_offloaded_are_neither_replaced_nor_offloaded_again) {
  const graph::Graph graph = Synthesised(SmallJob());
  const OffloadEdit states = {.kind = OffloadKind::kOptimizer};
  const auto refusal = [&](const std::vector<ProgramEditStep>& steps) {
    return ApplyProgramEdits(graph, steps).status().message();
  };
  EXPECT_THAT(refusal({states, OptimizerEdit{OptimizerKind::kLion}}),
              HasSubstr("before the offload of its states"));
  EXPECT_THAT(refusal({states, states}), HasSubstr("already offloaded"));
  Edited(graph, {states, OffloadEdit{.kind = OffloadKind::kActivations, .layer_bytes = 1}});
}

// As in a trace of another tool: a name, no tensors and no grid.
TEST(ProgramEdit, an_update_of_unknown_size_is_not_taken_for_one_of_nothing) {
  graph::Graph graph = Synthesised(SmallJob());
  for (graph::KernelSignature& signature : graph.signatures) {
    signature.inputs.clear();
    signature.grid = {};
  }
  EXPECT_THAT(Refusal(graph, OptimizerEdit{OptimizerKind::kSgd}), HasSubstr("recognised"));
  EXPECT_THAT(Refusal(graph, OffloadEdit{.kind = OffloadKind::kOptimizer}),
              HasSubstr("recognised"));
}

TEST(ProgramEdit, offloaded_activations_are_there_when_their_layer_needs_them) {
  const graph::Graph graph = Synthesised(SmallJob());
  const auto time = [&](int64_t bytes, int64_t prefetch) {
    return TimeOf(Edited(graph, {OffloadEdit{.kind = OffloadKind::kActivations,
                                             .prefetch = prefetch,
                                             .layer_bytes = bytes}})
                      .graph);
  };
  EXPECT_NEAR(static_cast<double>(time(1, 1)) / static_cast<double>(TimeOf(graph)), 1, 0.02);
  constexpr int64_t kLarge = int64_t{1} << 28;
  EXPECT_GT(time(kLarge, 0), time(1, 0));
  EXPECT_LE(time(kLarge, 1), time(kLarge, 0));
  EXPECT_THAT(Refusal(graph, OffloadEdit{.kind = OffloadKind::kActivations}),
              HasSubstr("how large they are"));
}

TEST(ProgramEdit, names_what_a_job_does_not_have) {
  const graph::Graph graph = Synthesised(SmallJob());
  EXPECT_THAT(Refusal(graph, OverlapEdit{{"none", {}}, false}), HasSubstr("the job has dp"));
  EXPECT_THAT(Refusal(graph, OverlapEdit{{"dp", graph::CollectiveKind::kAllToAll}, false}),
              HasSubstr("of kind all_to_all"));
}

}  // namespace
}  // namespace prism::slicer
