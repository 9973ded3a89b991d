// Two evaluations of one JobProgram: by pipeline stage, and of its expanded graph by the engine.
#include "replayer/stages/stage_replay.h"

#include <algorithm>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "graph/base/rng.h"
#include "graph/validate/validate.h"
#include "replayer/engine/replay_options.h"
#include "replayer/replay.h"
#include "replayer/stages/block_fold.h"
#include "slicer/edit/job_offload.h"
#include "slicer/edit/program_edit.h"
#include "slicer/synthesize/expand.h"
#include "slicer/synthesize/synthesize.h"
#include "tests/support/test_parameters.h"

namespace prism::replayer {
namespace {

using graph::DataParallelKind;
using graph::Schedule;

struct Case {
  graph::JobSpec job;
  graph::TrainingStyle style;
  int32_t gpus_per_node = 8;
  int64_t eager_bytes = 0;
};

// NOLINTNEXTLINE(readability-identifier-naming): found by argument-dependent look-up.
void showValue(const Case& c, std::ostream& out) {
  const graph::ParallelSizes& sizes = c.job.parallel;
  out << fmt::format(
      "tp {} cp {} dp {} ep {} pp {} vpp {} layers {} micro-batches {} zero {} schedule {} data "
      "parallel "
      "{} recompute {} built in {} overlap p2p {} grads {} params {} shard {} nodes of {} eager {}",
      sizes.tp, sizes.cp, sizes.dp, sizes.ep, sizes.pp, sizes.vpp, c.job.model.layers,
      c.job.microbatches(), c.job.zero_stage, static_cast<int>(c.style.schedule),
      static_cast<int>(c.style.data_parallel), static_cast<int>(c.job.recompute), c.style.built_in,
      c.style.overlap_p2p, c.style.overlap_grad_reduce, c.style.overlap_param_gather,
      c.style.shard_size, c.gpus_per_node, c.eager_bytes);
}

template <typename T>
T Pick(std::vector<T> values) {
  return *rc::gen::elementOf(std::move(values));
}

// Powers of two, so that all communicators of a family are placed on nodes in the same way.
Case DrawCase() {
  Case c;
  c.job.name = "random";
  c.job.model.name = "random";
  c.job.model.block = Pick<graph::BlockKind>({graph::BlockKind::kGpt, graph::BlockKind::kLlama});
  c.job.model.hidden = 256;
  c.job.model.heads = 8;
  c.job.model.kv_heads = 8;
  c.job.model.ffn = 512;
  c.job.model.vocab = 1000;
  c.job.model.tied_embeddings = *rc::gen::arbitrary<bool>();
  c.job.seq_len = 128;
  graph::ParallelSizes& sizes = c.job.parallel;
  sizes.tp = Pick<int32_t>({1, 2, 4});
  sizes.dp = Pick<int32_t>({1, 2, 4});
  sizes.cp = Pick<int32_t>({1, 1, 2});
  if (Pick<int>({0, 0, 1}) == 1) {  // a mixture of experts: the host waits for counts of tokens
    c.job.model.moe = {.experts = 8, .topk = 2, .expert_ffn = 128};
    sizes.ep = Pick<int32_t>({1, sizes.dp});
    c.style.moe_overlap = *rc::gen::arbitrary<bool>();
    c.style.moe_drop_and_pad = *rc::gen::arbitrary<bool>();
    c.style.moe_fused_dispatch = *rc::gen::arbitrary<bool>();
    c.style.moe_router_host_ns = c.style.moe_expert_host_ns = Pick<int64_t>({0, 100'000});
    c.job.model.mtp_layers = Pick<int64_t>({0, 1});
  }
  c.style.layers_from_front = *rc::gen::arbitrary<bool>();
  c.style.graph_parts = Pick<uint32_t>(
      {0, graph::kGraphAttention | graph::kGraphRouter, graph::kGraphAttention | graph::kGraphMlp});
  c.style.host_cost = Pick<graph::HostCost>(
      {graph::HostCost::kEager, graph::HostCost::kEager, graph::HostCost::kGraph});
  sizes.pp = Pick<int32_t>({1, 2, 3, 4});
  c.style.schedule = Pick<Schedule>({Schedule::kOneForwardOneBackward, Schedule::kGpipe,
                                     Schedule::kZeroBubble, Schedule::kLoopedBreadthFirst});
  const bool loops = c.style.schedule == Schedule::kOneForwardOneBackward ||
                     c.style.schedule == Schedule::kLoopedBreadthFirst;
  sizes.vpp = sizes.pp > 1 && loops ? Pick<int32_t>({1, 2}) : 1;
  c.job.model.layers = int64_t{sizes.pp} * sizes.vpp * Pick<int32_t>({1, 2});
  c.job.sequence_parallel = *rc::gen::arbitrary<bool>();
  const int64_t microbatches =
      sizes.vpp > 1 ? sizes.pp * Pick<int32_t>({1, 2}) : Pick<int32_t>({1, 2, 5});
  c.job.global_batch_size = microbatches * sizes.dp;
  c.job.recompute = Pick<graph::Recompute>(
      {graph::Recompute::kNone, graph::Recompute::kSelective, graph::Recompute::kFull});
  c.job.zero_stage = Pick<int32_t>({0, 1, 2, 3});
  c.style.data_parallel = c.job.zero_stage == 3   ? DataParallelKind::kFsdp
                          : c.job.zero_stage == 2 ? DataParallelKind::kZero2
                                                  : DataParallelKind::kMegatron;
  c.style.built_in = sizes.cp == 1 && c.job.model.moe.experts == 0 && *rc::gen::arbitrary<bool>();
  c.style.overlap_p2p = *rc::gen::arbitrary<bool>();
  c.style.serial_p2p = sizes.vpp == 1 && *rc::gen::arbitrary<bool>();
  c.style.overlap_grad_reduce = *rc::gen::arbitrary<bool>();
  c.style.overlap_param_gather = *rc::gen::arbitrary<bool>();
  c.style.reshard_after_forward = *rc::gen::arbitrary<bool>();
  c.style.bucket_elements = Pick<int64_t>({1'000, 100'000, 40'000'000});
  c.style.bucket_elements_per_rank = 1;
  c.style.prefetch = Pick<int32_t>({0, 1, 2});
  c.style.shard_size = sizes.dp > 1 ? Pick<int32_t>({0, 2}) : 0;
  c.gpus_per_node = Pick<int32_t>({2, 4, 8, 64});
  c.eager_bytes = Pick<int64_t>({0, 1 << 20});
  return c;
}

graph::ClusterSpec ClusterOf(const Case& c) {
  graph::Graph graph;
  graph.cluster = prism::testing::TestCluster();
  graph.cluster.gpus_per_node = c.gpus_per_node;
  graph.cluster.parameters.SetValue("p2p.eager_bytes", static_cast<double>(c.eager_bytes));
  return graph.cluster;
}

RC_GTEST_PROP(StageReplay, agrees_with_the_engine_on_the_expanded_graph, ()) {
  const Case c = *rc::gen::exec(DrawCase);
  const graph::ClusterSpec cluster = ClusterOf(c);
  const Result<graph::JobProgram> job = slicer::Synthesize(c.job, c.style);
  RC_ASSERT(job.ok());
  Result<graph::Graph> graph = slicer::Expand(*job, cluster);
  RC_ASSERT(graph.ok());
  const graph::Validation validation = graph::Validate(*graph);
  if (!validation.ok()) {
    RC_FAIL(validation.faults.front().message);
  }
  const Result<ReplayResult> expected = Replay(*graph, ReplayOptions());
  RC_ASSERT(expected.ok());
  for (const bool detailed : {true, false}) {
    Result<StageEvaluator> evaluator = StageEvaluator::Create(*job, detailed);
    RC_ASSERT(evaluator.ok());
    const Result<StageReplayResult> result = evaluator->Evaluate(cluster, {});
    RC_ASSERT(result.ok());
    RC_PRE(result->uneven.empty());
    RC_ASSERT(result->iteration_ns == expected->steady_iteration_ns());
    const auto per_stage = graph->ranks.size() / job->stages.size();
    for (size_t stage = 0; stage < job->stages.size(); ++stage) {
      const RankTimes& rank = expected->ranks[stage * per_stage];
      RC_ASSERT(result->stage_ns[stage] == rank.iteration_ns);
      if (detailed) {
        RC_ASSERT(result->stages[stage].compute_ns == rank.compute_ns);
        RC_ASSERT(result->stages[stage].exposed_comm_ns == rank.exposed_comm_ns);
        RC_ASSERT(result->stages[stage].bubble_ns == rank.bubble_ns);
        RC_ASSERT(result->stages[stage].idle_ns == rank.idle_ns);
      }
    }
  }
}

// Offload to host memory: a job with its copies takes the same time as its graph with the copies of
// the edit.
RC_GTEST_PROP(StageReplay, of_an_offloaded_job_is_that_of_its_edited_graph, ()) {
  Case c = *rc::gen::exec(DrawCase);
  c.style.schedule = Schedule::kOneForwardOneBackward;
  graph::ClusterSpec cluster = ClusterOf(c);
  cluster.parameters.SetValue("gpu.copy_bytes_per_s", Pick<double>({1e8, 1e9, 5e10}));
  const auto what = *graph::OffloadNamed(Pick<std::string>({"optimizer", "activations", "all"}));
  const slicer::JobOffload offload = {what, Pick<int64_t>({0, 1, 3}), Pick<int64_t>({1, 100'000})};
  Result<graph::JobProgram> job = slicer::Synthesize(c.job, c.style);
  RC_ASSERT(job.ok());
  const Result<graph::Graph> graph = slicer::Expand(*job, cluster);
  RC_ASSERT(graph.ok());
  std::vector<slicer::ProgramEditStep> steps;
  if (graph::OffloadsActivations(offload.what)) {
    steps.emplace_back(slicer::OffloadEdit{slicer::OffloadKind::kActivations, offload.prefetch,
                                           offload.layer_bytes});
  }
  if (graph::OffloadsOptimizer(offload.what)) {
    steps.emplace_back(slicer::OffloadEdit{slicer::OffloadKind::kOptimizer, offload.prefetch});
  }
  const Result<slicer::EditedGraph> edited = slicer::ApplyProgramEdits(*graph, steps);
  RC_ASSERT(edited.ok());
  const Result<ReplayResult> expected = Replay(edited->graph, ReplayOptions());
  RC_ASSERT(expected.ok());
  RC_ASSERT(slicer::OffloadJob(offload, &*job).ok());
  const Result<StageReplayResult> result = StageEvaluator::Create(*job)->Evaluate(cluster, {});
  RC_ASSERT(result.ok());
  RC_PRE(result->uneven.empty());
  RC_ASSERT(result->iteration_ns == expected->steady_iteration_ns());
}

// Whatever the schedule, its host waits and the pace at which stages catch up, with markers and
// without, and with copies to host memory.
TEST(StageReplay, of_equal_rounds_is_that_of_every_round) {
  int64_t skipped = 0;
  EXPECT_TRUE(rc::check([&] {
    Case c = *rc::gen::exec(DrawCase);
    const graph::ParallelSizes& sizes = c.job.parallel;
    const int64_t of_round = sizes.vpp > 1 ? sizes.pp : 1;
    c.job.global_batch_size = of_round * Pick<int64_t>({6, 9, 10, 13, 20, 50}) * sizes.dp;
    const auto markers = Pick<slicer::Markers>({slicer::Markers::kAll, slicer::Markers::kNone});
    Result<graph::JobProgram> job = slicer::Synthesize(c.job, c.style, markers);
    RC_ASSERT(job.ok());
    if (markers == slicer::Markers::kAll && c.style.schedule == Schedule::kOneForwardOneBackward &&
        *rc::gen::arbitrary<bool>()) {
      RC_ASSERT(slicer::OffloadJob({graph::Offload::kActivations, 1, 1000}, &*job).ok());
    }
    graph::ClusterSpec cluster = ClusterOf(c);
    cluster.parameters.SetValue("overlap.compute_slowdown", Pick<double>({1, 1.3}));
    const Result<StageReplayResult> told = StageEvaluator::Create(*job)->Evaluate(cluster, {});
    for (graph::StageProgram& stage : job->stages) {
      stage.rounds.clear();
    }
    const Result<StageReplayResult> expected = StageEvaluator::Create(*job)->Evaluate(cluster, {});
    RC_ASSERT(told.ok() && expected.ok());
    RC_ASSERT(told->stage_ns == expected->stage_ns);
    RC_ASSERT(expected->skipped_rounds == 0);
    skipped += told->skipped_rounds > 0 ? 1 : 0;
  }));
  EXPECT_GT(skipped, 20);
}

// A block in which work is issued in runs, each as one op or as one op for each time.
LoweredBlock BlockOfRuns(const std::vector<StageOp>& runs, bool singly) {
  LoweredBlock block;
  block.streams = {0, 1};
  block.event_count = 1;
  for (const StageOp& run : runs) {
    StageOp op = run;
    op.times = singly ? 1 : run.times;
    block.ops.insert(block.ops.end(), singly ? run.times : 1, op);
  }
  return block;
}

RC_GTEST_PROP(BlockFold, runs_of_work_fold_as_issued_one_by_one, (uint64_t seed)) {
  Rng rng(seed, "runs of work");
  StagePlan plan;
  plan.kernel_streams = {0};
  plan.charges.resize(2);
  plan.tables.works.resize(3);
  plan.tables.works.back().kind = graph::OpKind::kMemset;
  const auto any = [&] { return rng.UniformInt(0, 1) << rng.UniformInt(0, 14); };
  const std::vector<DurationNs> work = {any(), any(), any()};
  const std::vector<DurationNs> span = {0, any(), any()};
  std::vector<StageOp> runs;
  for (int64_t left = rng.UniformInt(1, 9); left > 0; --left) {
    StageOp op;
    op.stream = static_cast<uint16_t>(rng.UniformInt(0, 1));
    op.span = static_cast<uint32_t>(rng.UniformInt(0, 2));
    if (rng.UniformInt(0, 2) > 0) {
      op.index = static_cast<uint32_t>(op.stream == 0 ? rng.UniformInt(0, 2) : 2);
      op.times = static_cast<uint32_t>(rng.UniformInt(1, 5));
    } else {
      op.kind = rng.UniformInt(0, 1) == 0 ? StageOpKind::kRecord : StageOpKind::kWait;
      op.event = 0;
    }
    runs.push_back(op);
  }
  plan.blocks = {BlockOfRuns(runs, false), BlockOfRuns(runs, true)};
  const std::vector<DurationNs> none;
  const FoldDurations durations = {&work, &span, &none, &none, 1};
  const FoldedSegment in_runs = FoldBlock(plan, 0, durations);
  const FoldedSegment singly = FoldBlock(plan, 1, durations);
  RC_ASSERT(in_runs.host_ns == singly.host_ns);
  RC_ASSERT(in_runs.from_host == singly.from_host);
  RC_ASSERT(in_runs.from_tail == singly.from_tail);
  RC_ASSERT(in_runs.compute_ns == singly.compute_ns);
}

}  // namespace
}  // namespace prism::replayer
