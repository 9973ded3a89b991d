// Text workloads of ASTRA-sim and SimAI → a graph in which all ranks share one program.
//
// One pass over the layers as those simulators run it: forward compute, then its collective;
// backward from the last layer, input gradient and its collective, weight gradient, whose
// collective runs beside what follows. Where model parallelism is a dimension of the network
// (HYBRID_DATA_MODEL), the collective of input gradients runs beside the weight gradient, else
// before it. Layers between checkpoints run forward again before the backward pass of the layer
// that initiates it. HYBRID_DLRM exchanges the embeddings of its first layer beside the layers up
// to the last bottom one, and their gradients beside the backward pass of the same.
#pragma once

#include <string>
#include <vector>

#include "graph/base/status.h"
#include "slicer/import/importer.h"

namespace prism::slicer {

// The units of the two tools. ASTRA-sim: times are microseconds (as Chakra's converter reads them),
// the bytes of an ALLGATHER are one rank's part. SimAI: nanoseconds, the whole.
enum class LayerDialect { kAstra, kSimAi };

struct LayerOptions {
  LayerDialect dialect = LayerDialect::kAstra;
  std::vector<int64_t> dims = {};  // of the network; empty: unknown
  int64_t unit_ns = 0;             // of compute times; 0: the dialect's
};

// Number of ranks: options.target_gpus, else the size of the network, else the file's all_gpus.
Result<ImportResult> ImportLayers(const std::string& path,
                                  const ImportOptions& options,
                                  const LayerOptions& layers);

// The same from memory; `file` for messages.
Result<ImportResult> ImportLayersText(std::string_view text,
                                      const std::string& file,
                                      const ImportOptions& options,
                                      const LayerOptions& layers);

}  // namespace prism::slicer
