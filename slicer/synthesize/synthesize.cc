#include "slicer/synthesize/synthesize.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "graph/program/job_groups.h"
#include "slicer/synthesize/stage_synthesis.h"

namespace prism::slicer {
namespace {

Status CheckJob(const graph::JobSpec& job, const graph::TrainingStyle& style) {
  PRISM_RETURN_IF_ERROR(graph::CheckGroups(job.parallel, style.shard_size));
  if (job.model.layers < 1 || job.model.hidden < 1 || job.model.heads < 1 || job.seq_len < 1) {
    return InvalidArgument(fmt::format("the shape of model {} is incomplete", job.model.name));
  }
  const RankShape rank(job, style);
  const bool has_dense_layers = job.model.moe.experts == 0 || job.model.moe.dense_layers > 0;
  if (rank.batch < 1 || rank.shard < 1 || rank.heads < 1 || rank.head_size < 1 ||
      (has_dense_layers && rank.ffn < 1)) {
    return InvalidArgument(fmt::format(
        "a rank with tp {} x cp {} has no part of the model's heads, feed-forward layers or tokens",
        job.parallel.tp, job.parallel.cp));
  }
  return CheckSchedule(job, style);
}

// Makes the iteration one launch.
void LaunchAsGraph(graph::JobProgram* program) {
  for (graph::Program& block : program->blocks) {
    for (uint8_t& flags : block.flags) {
      flags |= graph::kLaunchedWithPrevious;
    }
  }
}

}  // namespace

Result<graph::JobProgram> Synthesize(const graph::JobSpec& job,
                                     const graph::TrainingStyle& style,
                                     Markers markers) {
  PRISM_RETURN_IF_ERROR(CheckJob(job, style));
  const SynthesisShape shape = {RankShape(job, style), RankShape(UnitJob(job), UnitStyle(style))};
  JobAssembly assembly;
  ChunkMaker maker(shape.unit, &assembly);
  graph::JobProgram program;
  program.job = job;
  program.style = style;
  std::vector<std::unique_ptr<StageSynthesis>> kinds;  // their data parallelism points into them
  for (int32_t stage = 0; stage < job.parallel.pp; ++stage) {
    std::vector<ModelChunk> chunks;
    for (int32_t chunk = 0; chunk < job.parallel.vpp; ++chunk) {
      chunks.push_back(maker.Make(shape.rank, stage, chunk));
    }
    auto kind =
        std::ranges::find_if(kinds, [&](const auto& known) { return known->Writes(chunks); });
    if (kind == kinds.end()) {
      kind = kinds.insert(kind, std::make_unique<StageSynthesis>(
                                    shape, std::move(chunks), &assembly, markers == Markers::kAll));
    }
    program.stages.push_back((*kind)->Run(stage));
  }
  assembly.MoveInto(&program);
  if (style.host_cost == graph::HostCost::kGraph) {
    LaunchAsGraph(&program);
  }
  return program;
}

}  // namespace prism::slicer
