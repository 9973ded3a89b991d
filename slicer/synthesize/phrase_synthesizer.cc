#include "slicer/synthesize/phrase_synthesizer.h"

#include <algorithm>
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
void LaunchAsGraph(size_t first, graph::JobProgram* program) {
  for (size_t block = first; block < program->blocks.size(); ++block) {
    for (uint8_t& flags : program->blocks[block].flags) {
      flags |= graph::kLaunchedWithPrevious;
    }
  }
}

}  // namespace

Result<graph::PhrasedJob> PhraseSynthesizer::Run(const graph::JobSpec& job,
                                                 const graph::TrainingStyle& style,
                                                 Markers markers) {
  PRISM_RETURN_IF_ERROR(CheckJob(job, style));
  PRISM_CHECK((style.host_cost == graph::HostCost::kGraph) == launched_as_graph_);
  assembly_.MoveFrom(program_.get());
  const graph::JobSpec unit_job = UnitCache::UnitJob(job);
  const graph::TrainingStyle unit_style = UnitCache::UnitStyle(style);
  const SynthesisShape shape = {RankShape(job, style), RankShape(unit_job, unit_style),
                                units_.ShapeOf(unit_job, unit_style), units_.StyleOf(style),
                                timed_only_};
  ChunkMaker maker(shape.unit, shape.unit_number, &assembly_, &units_);
  graph::PhrasedJob phrased;
  phrased.job = job;
  phrased.style = style;
  phrased.program = program_;
  const JobSchedule& schedule = schedules_.Find(job, style);
  const bool marks = markers == Markers::kAll;
  // Stages with one chunk have no chunk in common with another kind of stage.
  const bool shares = timed_only_ && !marks && job.parallel.vpp > 1;
  std::vector<std::unique_ptr<SharedPhrases>> phrases;
  std::vector<std::unique_ptr<StageSynthesis>> kinds;  // their data parallelism points into them
  for (int32_t stage = 0; stage < job.parallel.pp; ++stage) {
    std::vector<ModelChunk> chunks;
    for (int32_t chunk = 0; chunk < job.parallel.vpp; ++chunk) {
      chunks.push_back(maker.Make(shape.rank, stage, chunk));
    }
    auto kind = std::find_if(kinds.begin(), kinds.end(),
                             [&](const auto& known) { return known->Writes(chunks); });
    if (kind == kinds.end()) {
      if (phrases.empty() || !shares) {
        phrases.push_back(std::make_unique<SharedPhrases>());
      }
      SharedPhrases* shared = phrases.back().get();
      kind = kinds.insert(kind, std::make_unique<StageSynthesis>(
                                    shape, std::move(chunks),
                                    StageWriter(&assembly_, &shared->slots(), marks), shared));
    }
    const auto number = static_cast<size_t>(kind - kinds.begin());
    phrased.stages.push_back(
        (*kind)->Run(stage, schedule, static_cast<uint32_t>(std::min(number, phrases.size() - 1))));
  }
  for (const auto& shared : phrases) {
    phrased.kinds.push_back(shared->Take());
  }
  assembly_.MoveInto(program_.get());
  if (launched_as_graph_) {
    LaunchAsGraph(known_blocks_, program_.get());
  }
  for (; known_blocks_ < program_->blocks.size(); ++known_blocks_) {
    op_count_ += program_->blocks[known_blocks_].size();
  }
  return phrased;
}

}  // namespace prism::slicer
