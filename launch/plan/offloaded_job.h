// Jobs with a second memory tier: optimizer states, activations of layers, or both, live in host
// memory and are copied in before they are needed (slicer/edit/job_offload.h).
#pragma once

#include <string>
#include <vector>

#include "graph/base/status.h"
#include "graph/job/job.h"
#include "graph/job/offload.h"
#include "graph/job/training_style.h"
#include "graph/program/job_program.h"
#include "replayer/memory/stage_memory.h"

namespace prism::launch {

// What every stage does, copies included. Its layers are not marked.
Result<graph::JobProgram> SynthesizeOffloaded(const graph::JobSpec& job,
                                              const graph::TrainingStyle& style,
                                              graph::Offload what);

// What each stage keeps in host memory.
Result<std::vector<replayer::HostTier>> HostTiersOf(const graph::JobSpec& job,
                                                    const graph::TrainingStyle& style,
                                                    graph::Offload what);

// A lower bound of the bytes that a rank of a stage copies to its device in an iteration.
Result<int64_t> CopiedInBytes(const graph::JobSpec& job,
                              const graph::TrainingStyle& style,
                              graph::Offload what,
                              int32_t stage);

// What is assumed, one line each.
std::vector<std::string> OffloadAssumptions(graph::Offload what);

}  // namespace prism::launch
