// Why this is a lower bound: a folded block is a max-plus matrix, which gives the time at which
// each stream has finished it from the times at which the streams finished what came before. Its
// diagonal entry for the compute stream is what that stream advances at least, whatever the others
// do, so the entries of successive blocks add up. The fastest kind of layer stands for all, and
// where stages do not fill nodes, a node is taken to hold a whole one.
#include "launch/plan/layer_time.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "graph/program/job_program.h"
#include "replayer/stages/stage_costs.h"
#include "replayer/stages/stage_plan.h"
#include "slicer/synthesize/blocks/blocks.h"

namespace prism::launch {
namespace {

// A replica of one stage with one micro-batch: the contents of a layer depend on nothing else.
graph::JobSpec OneStage(graph::JobSpec job) {
  job.parallel.pp = 1;
  job.parallel.vpp = 1;
  job.parallel.dp = job.parallel.ep;
  job.global_batch_size = job.micro_batch_size * job.parallel.dp;
  return job;
}

// Stages that are not whole nodes are placed on nodes differently from the first one, some better;
// nodes that hold a whole replica of the stage are a bound for all.
graph::ClusterSpec WithWholeStages(graph::ClusterSpec cluster, const graph::JobSpec& one_stage) {
  const auto ranks = static_cast<int32_t>(one_stage.parallel.world_size());
  if (ranks % cluster.gpus_per_node != 0 && cluster.gpus_per_node % ranks != 0) {
    cluster.gpus_per_node = ranks;
  }
  return cluster;
}

// The least time by which the blocks, one after the other, advance the compute stream.
DurationNs ComputeTime(const replayer::StagePlan& plan, const replayer::StageCosts& costs) {
  DurationNs sum = 0;
  for (const replayer::Instruction& instruction : plan.stages.front().instructions) {
    if (instruction.kind == replayer::InstructionKind::kWork &&
        instruction.stream == graph::kStageComputeStream) {
      sum += costs.work_ns[instruction.index];
    }
    if (instruction.kind != replayer::InstructionKind::kSegment) {
      continue;
    }
    const replayer::FoldedSegment& folded = costs.segments.front()[instruction.index];
    for (uint32_t i = 0; i < folded.stream_count; ++i) {
      if (folded.streams[i] == graph::kStageComputeStream) {
        sum += std::max<DurationNs>(0, folded.from_tail[i][i]);
      }
    }
  }
  return sum;
}

Result<DurationNs> BusyTime(const graph::RankShape& rank,
                            slicer::UnitBlocks unit,
                            const slicer::BlockTables& tables,
                            const graph::ClusterSpec& cluster) {
  graph::JobProgram program;
  program.job = rank.job;
  program.style = rank.style;
  const bool halves = rank.style.schedule == graph::Schedule::kZeroBubble;
  program.blocks.push_back(std::move(unit.forward.program));
  program.blocks.push_back(std::move(halves ? unit.backward_input.program : unit.backward.program));
  if (halves) {
    program.blocks.push_back(std::move(unit.backward_weight.program));
  }
  program.strings = tables.strings();
  program.signatures = tables.signatures();
  program.stages.emplace_back();
  for (uint32_t block = 0; block < program.blocks.size(); ++block) {
    program.stages.front().calls.push_back(block);
  }
  PRISM_ASSIGN_OR_RETURN(const replayer::StagePlan plan,
                         replayer::MakeStagePlan(program, /*fold=*/true));
  replayer::StageCostModel model(program, plan);
  PRISM_RETURN_IF_ERROR(model.Bind(cluster, {}));
  return ComputeTime(plan, model.costs());
}

// One of each kind of layer: they differ by what precedes them in the backward pass, some by their
// place in a period of two, and the first ones of a mixture of experts may be dense.
std::vector<int64_t> UnlikeLayers(const graph::JobSpec& job, const graph::TrainingStyle& style) {
  const bool alternate = job.model.sliding_window > 0 ||
                         (style.recompute_parts & uint32_t{graph::kRecomputeEverySecondLayer}) != 0;
  const int64_t layers = job.model.layers;
  const int64_t dense = std::min(job.model.moe.dense_layers, layers);
  std::vector<int64_t> unlike;
  for (const int64_t end : {layers, dense}) {
    for (int64_t layer = end - 1; layer >= std::max<int64_t>(0, end - (alternate ? 2 : 1));
         --layer) {
      unlike.push_back(layer);
    }
  }
  return unlike;
}

}  // namespace

Result<BusyTimes> FindBusyTimes(const graph::JobSpec& job,
                                const graph::TrainingStyle& style,
                                const graph::ClusterSpec& job_cluster) {
  const graph::RankShape rank(OneStage(job), style);
  const graph::ClusterSpec cluster = WithWholeStages(job_cluster, rank.job);
  BusyTimes times;
  times.layer = std::numeric_limits<DurationNs>::max();
  for (const int64_t layer : UnlikeLayers(job, style)) {
    slicer::BlockTables tables;
    graph::Program backward;  // of the layer that was timed last
    for (const bool received : {false, true}) {
      slicer::UnitPlace place;
      place.layer = layer;
      place.gradient_received = received;
      slicer::UnitBlocks unit = slicer::LayerUnit(rank, place, &tables);
      if (received && unit.backward.program == backward) {
        continue;
      }
      backward = unit.backward.program;
      PRISM_ASSIGN_OR_RETURN(const DurationNs time,
                             BusyTime(rank, std::move(unit), tables, cluster));
      times.layer = std::min(times.layer, time);
    }
  }
  slicer::BlockTables tables;
  slicer::UnitBlocks head = slicer::HeadUnit(rank, {}, &tables);
  PRISM_ASSIGN_OR_RETURN(times.head, BusyTime(rank, std::move(head), tables, cluster));
  return times;
}

}  // namespace prism::launch
