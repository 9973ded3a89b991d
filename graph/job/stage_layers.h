// Which transformer layers a pipeline stage of a framework holds.
#pragma once

#include <cstdint>

#include "graph/job/job.h"
#include "graph/job/training_style.h"

namespace prism::graph {

// Whether the style's layer counts for the first and the last stage apply: without interleaving,
// where they leave a layer for each stage between, or no layer where there is no stage between.
bool HasUnevenEnds(const JobSpec& job, const TrainingStyle& style);

// The layers of model chunk `chunk`, counted over the whole pipeline: as LayersOfChunk, except that
// the first and last have as many as the style says where HasUnevenEnds; with
// style.layers_from_front all chunks but the last ones have equally many; with
// style.balanced_stages (which has one chunk a stage) dealt out in order, where a stage is full
// once the summed cost of its blocks reaches its share. A layer costs 4 h² + 3 h f there and the
// head, which the last stage always holds, v h (nanotron/models/base.py, build_model).
LayerRange LayersOfChunk(const JobSpec& job, const TrainingStyle& style, int64_t chunk);

}  // namespace prism::graph
