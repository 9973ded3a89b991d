// The way of every op that the program issues on a stream: into the record, at once or, where the
// stream is under capture, at each launch of the graph that it becomes part of
// (shim/virtual_device/capture.h). Thread-safe.
#pragma once

#include <functional>

#include <cuda_runtime_api.h>

#include "shim/channel/messages.h"

namespace prism::shim {

// Issues an op on a stream with its effect on memory, or keeps both if the stream is captured.
void IssueOp(cudaStream_t stream, channel::Record record, std::function<void()> effect = nullptr);

}  // namespace prism::shim
