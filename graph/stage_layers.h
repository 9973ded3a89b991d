// Which transformer layers a pipeline stage of a framework holds.
#pragma once

#include <cstdint>

#include "graph/job.h"
#include "graph/training_style.h"

namespace prism::graph {

// Whether the style's numbers of layers for the first and the last stage hold: without
// interleaving, where they leave a layer for each stage between, or nothing where there is none.
bool HasUnevenEnds(const JobSpec& job, const TrainingStyle& style);

// The layers of model chunk `chunk`, counted over the whole pipeline: as LayersOfChunk; the first
// and last have as many as the style says where that holds; with
// style.layers_from_front all chunks but the last ones alike; with style.balanced_stages (which has
// one chunk a stage) dealt out in order, where a stage is full once the summed cost of its blocks
// reaches its share. A layer costs 4 h² + 3 h f there and the head, which the last stage always
// holds, v h (nanotron/models/base.py, build_model).
LayerRange LayersOfChunk(const JobSpec& job, const TrainingStyle& style, int64_t chunk);

}  // namespace prism::graph
