// Launches that blocked because too many were outstanding (CUDA queues about 1,024 of a stream):
// their time is the GPU's, not the host's.
#pragma once

#include <cstdint>
#include <vector>

#include "slicer/import/kineto/trace_file.h"

namespace prism::slicer {

// By call: the task whose end let it return; kNoTask (step_calls.h) for all that did not block.
// `call_of`: the call that launched each task, or kNoTask.
std::vector<uint32_t> BlockedLaunches(const KinetoTrace& trace,
                                      const std::vector<uint32_t>& call_of);

}  // namespace prism::slicer
