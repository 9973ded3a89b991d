// CUDA graphs: what a capture leaves behind, and its handle.
#pragma once

#include <memory>

#include <cuda_runtime_api.h>

#include "shim/virtual_device/capture.h"

namespace prism::shim {

struct Graph {
  std::shared_ptr<GraphBody> body = std::make_shared<GraphBody>();
};

cudaGraph_t ToHandle(Graph* graph);

}  // namespace prism::shim
