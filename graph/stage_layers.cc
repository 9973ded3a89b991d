#include "graph/stage_layers.h"

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

}  // namespace

LayerRange LayersOfChunk(const JobSpec& job, const TrainingStyle& style, int64_t chunk) {
  const int64_t chunks = int64_t{job.parallel.pp} * job.parallel.vpp;
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
