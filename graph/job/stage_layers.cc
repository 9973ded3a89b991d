#include "graph/job/stage_layers.h"

#include <algorithm>

#include "graph/base/divide.h"

namespace prism::graph {
namespace {

// One past the last layer of a stage that is not the last.
int64_t EndOfBalancedStage(const JobSpec& job, int64_t stage) {
  const ModelSpec& model = job.model;
  const double layer = 4.0 * static_cast<double>(model.hidden * model.hidden) +
                       3.0 * static_cast<double>(model.ffn * model.hidden);
  const auto head = static_cast<double>(model.vocab * model.hidden);
  const double share = (static_cast<double>(model.layers) * layer + head) / job.parallel.pp;
  const double filled = static_cast<double>(stage + 1) * share;
  const auto full = static_cast<int64_t>(filled / layer);
  const bool ends_early = static_cast<double>(full) * layer < filled;
  return std::min(model.layers, full + (ends_early ? 1 : 0));
}

// The layers that the ends leave are distributed over the stages between.
LayerRange LayersOfUnevenStage(const JobSpec& job, const TrainingStyle& style, int64_t stage) {
  const int64_t stages = job.parallel.pp;
  const int64_t first = style.first_stage_layers;
  const int64_t last = style.last_stage_layers;
  if (first > 0 && stage == 0) {
    return {0, first};
  }
  if (last > 0 && stage == stages - 1) {
    return {job.model.layers - last, job.model.layers};
  }
  const LayerRange between =
      LayersOfChunk(job.model.layers - first - last,
                    stages - (first > 0 ? 1 : 0) - (last > 0 ? 1 : 0), stage - (first > 0 ? 1 : 0));
  return {first + between.begin, first + between.end};
}

}  // namespace

bool HasUnevenEnds(const JobSpec& job, const TrainingStyle& style) {
  const int64_t ends = int64_t{style.first_stage_layers} + style.last_stage_layers;
  const int64_t between = job.parallel.pp - (style.first_stage_layers > 0 ? 1 : 0) -
                          (style.last_stage_layers > 0 ? 1 : 0);
  const int64_t left = job.model.layers - ends;
  return ends > 0 && job.parallel.vpp == 1 && (between > 0 ? left >= between : left == 0);
}

LayerRange LayersOfChunk(const JobSpec& job, const TrainingStyle& style, int64_t chunk) {
  const int64_t chunks = int64_t{job.parallel.pp} * job.parallel.vpp;
  if (HasUnevenEnds(job, style)) {
    return LayersOfUnevenStage(job, style, chunk);
  }
  if (style.layers_from_front) {
    const int64_t each = DivideUp(job.model.layers, chunks);
    return {std::min(chunk * each, job.model.layers),
            std::min((chunk + 1) * each, job.model.layers)};
  }
  if (!style.balanced_stages || job.parallel.vpp > 1) {
    return LayersOfChunk(job.model.layers, chunks, chunk);
  }
  return {chunk == 0 ? 0 : EndOfBalancedStage(job, chunk - 1),
          chunk == chunks - 1 ? job.model.layers : EndOfBalancedStage(job, chunk)};
}

}  // namespace prism::graph
