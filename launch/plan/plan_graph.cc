#include "launch/plan/plan_graph.h"

#include <set>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "graph/base/time.h"
#include "graph/base/units.h"
#include "graph/validate/valid_graph.h"
#include "launch/plan/offloaded_job.h"
#include "replayer/cost/congestion.h"
#include "replayer/memory/device_memory.h"
#include "replayer/memory/stage_memory.h"
#include "slicer/synthesize/expand.h"
#include "slicer/synthesize/synthesize.h"

namespace prism::launch {
namespace {

// Streams of the ops that a stage issues, ascending.
std::set<uint16_t> StreamsOf(const graph::JobProgram& program, const graph::StageProgram& stage) {
  std::set<uint16_t> streams;
  for (const uint32_t call : std::set<uint32_t>(stage.calls.begin(), stage.calls.end())) {
    const graph::Program& block = program.blocks[call];
    for (uint32_t op = 0; op < block.size(); ++op) {
      if (graph::HasStream(block.kind[op])) {
        streams.insert(block.stream[op]);
      }
    }
  }
  return streams;
}

// Delays host and streams by `gap` at the end of an iteration. Whatever is ordered across
// iterations is ordered on a stream or by the host, so each iteration becomes longer by `gap`,
// however far hosts run ahead. Copies from the host are not compute: ranks are idle meanwhile.
void EndInHostGap(DurationNs gap, graph::JobProgram* program) {
  for (graph::StageProgram& stage : program->stages) {
    graph::Program block;
    block.stream_count = graph::kStageStreamCount;
    for (const uint16_t stream : StreamsOf(*program, stage)) {
      block.Append(
          {.kind = graph::OpKind::kMemcpy,
           .flags = graph::kHostToDevice | graph::kDurationFixed | graph::kLaunchedWithPrevious,
           .stream = stream,
           .value = gap});
    }
    block.Append({.kind = graph::OpKind::kHostGap, .value = gap});
    stage.calls.push_back(static_cast<uint32_t>(program->blocks.size()));
    program->blocks.push_back(std::move(block));
  }
}

Result<graph::JobProgram> ProgramOf(const PlanEvaluator::Job& job, graph::Offload offload) {
  return offload == graph::Offload::kNone
             ? slicer::Synthesize(job.spec, job.style, slicer::Markers::kAll)
             : SynthesizeOffloaded(job.spec, job.style, offload);
}

// Fills the memory of every role; each is a stage.
Status FillMemory(const PlanEvaluator::Job& job,
                  graph::Offload offload,
                  const graph::ClusterSpec& cluster,
                  graph::Graph* graph) {
  PRISM_ASSIGN_OR_RETURN(const std::vector<replayer::HostTier> tiers,
                         HostTiersOf(job.spec, job.style, offload));
  replayer::StageMemoryOptions options = replayer::MemoryOptionsOf(cluster);
  const auto context = static_cast<int64_t>(cluster.parameters.Value("gpu.context_bytes"));
  for (graph::Role& role : graph->roles) {
    options.host = tiers[static_cast<size_t>(role.stage)];
    PRISM_ASSIGN_OR_RETURN(replayer::StageMemory memory,
                           PredictStageMemory(job.spec, job.style, role.stage, options));
    const int64_t outside = replayer::OutsideAllocatorBytes(cluster, job.spec, role.stage);
    role.memory.peak_allocated = memory.peak_allocated;
    role.memory.peak_reserved = memory.peak_reserved;
    role.memory.at_peak = std::move(memory.at_peak);
    role.memory.outside = {{"context", context, graph::Mark::kAssumed},
                           {"nccl", outside - context, graph::Mark::kAssumed}};
  }
  return OkStatus();
}

std::vector<std::string> AssumptionsOf(const PlanEvaluator& evaluator,
                                       const Plan& plan,
                                       DurationNs gap,
                                       bool congested) {
  std::vector<std::string> lines = {
      fmt::format("no rank was recorded: synthesised from the shape of {} as {} runs it; memory "
                  "comes from the simulated allocator",
                  evaluator.problem().model.name, evaluator.problem().framework)};
  const PlanEvaluator::AssumptionLines assumed = evaluator.Assumptions(plan);
  for (const auto* more : {&assumed.framework, &assumed.offload}) {
    lines.insert(lines.end(), more->begin(), more->end());
  }
  if (gap > 0) {
    lines.push_back(
        fmt::format("the host takes {} outside of ops at the end of an iteration "
                    "(host.iteration_ns)",
                    FormatDuration(gap)));
  }
  if (congested) {
    lines.emplace_back("host.collective_ns and p2p.base_ns are those for a job of this layout");
  }
  return lines;
}

}  // namespace

Result<graph::Graph> GraphOf(const PlanEvaluator& evaluator, const Plan& plan) {
  const graph::ClusterSpec& cluster = evaluator.problem().cluster;
  const PlanEvaluator::Job job = evaluator.Describe(plan);
  PRISM_ASSIGN_OR_RETURN(graph::JobProgram program, ProgramOf(job, plan.offload));
  const DurationNs gap = NsFromSeconds(SecondsOfIteration(0, job.style, cluster.parameters));
  if (gap > 0) {
    EndInHostGap(gap, &program);
  }
  const graph::ClusterSpec found = replayer::WithCongestion(cluster, job.spec);
  PRISM_ASSIGN_OR_RETURN(graph::Graph graph, slicer::Expand(program, found));
  graph.job.name = job.spec.model.name;
  PRISM_RETURN_IF_ERROR(FillMemory(job, plan.offload, cluster, &graph));
  const std::vector<std::string> lines = AssumptionsOf(evaluator, plan, gap, found != cluster);
  graph.assumptions.insert(graph.assumptions.end(), lines.begin(), lines.end());
  PRISM_RETURN_IF_ERROR(graph::RefuseInvalid(&graph));
  return graph;
}

}  // namespace prism::launch
