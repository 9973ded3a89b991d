// The order in which a pipeline stage runs the passes of its model chunks.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/job/job.h"
#include "replayer/memory/stage_memory.h"

namespace prism::replayer {

// One pass of a model chunk.
struct ChunkPass {
  bool forward = true;
  int64_t chunk = 0;
};

// Passes in the order of the schedule: `ahead` forward passes, then one forward and one backward
// pass in turn; pass k of vpp chunks belongs to chunk k / pp mod vpp, backward passes count from
// the last chunk (Megatron's interleaved schedule; options.microbatch_group replaces pp). The last
// round may have fewer micro-batches. What follows one full round of the chunks, and
// `deferred_heads` micro-batches, repeats; `to_the_end`: includes the backward passes that end an
// iteration.
std::vector<ChunkPass> PassesOf(const graph::JobSpec& job,
                                const StageMemoryOptions& options,
                                int64_t ahead,
                                bool to_the_end);

}  // namespace prism::replayer
