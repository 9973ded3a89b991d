// The text workloads of ASTRA-sim and SimAI: a kind of parallelism, then one line per layer.
//
//   HYBRID_TRANSFORMER model_parallel_NPU_group: 8 ep: 1 pp: 1 all_gpus: 64 ...
//   2
//   attention -1 1750840 ALLGATHER 50331648 875420 REDUCESCATTER 50331648 875420 NONE 0 100
//
// A line: name, reserved, then forward, input gradient and weight gradient with compute time,
// collective and bytes each, then the time of an update (HYBRID_CUSTOMIZED, which is refused, has
// more). SimAI adds a group to the collective: ALLTOALL_EP, ALLREDUCE_DP_EP.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "graph/base/status.h"
#include "graph/program/op.h"

namespace prism::slicer {

// Which ranks a collective spans.
enum class LayerGroup : uint8_t { kModel, kData, kExpert, kDataExpert };

inline constexpr size_t kLayerGroupCount = 4;

// One of the three passes of a layer.
struct LayerPass {
  int64_t compute = 0;  // in the unit of the format
  bool communicates = false;
  graph::CollectiveKind kind = graph::CollectiveKind::kAllReduce;
  LayerGroup group = LayerGroup::kModel;
  int64_t bytes = 0;
};

struct WorkloadLayer {
  std::string name;
  LayerPass forward;
  LayerPass input_gradient;
  LayerPass weight_gradient;
  int64_t update = 0;  // in the unit of the format
};

enum class WorkloadKind : uint8_t {
  kMicro,            // the weight gradients' collectives only
  kData,             // weight gradients are reduced beside the backward pass
  kModel,            // activations are exchanged, weight gradients are not
  kHybridDataModel,  // model parallel in the first dimension, data parallel in the others
  kHybridModelData,  // the other way round
  kTransformer,      // model parallel in groups of neighbours
  kDlrm,             // embeddings exchanged beside the bottom layers, reduced like kData
};

// Key of the last layer before the embeddings are needed (HYBRID_DLRM).
inline constexpr const char* kLastBottomLayer = "DLRM_LAST_BOTTOM_LAYER";

struct LayerWorkload {
  WorkloadKind kind = WorkloadKind::kData;
  std::map<std::string, int64_t> numbers;  // "model_parallel_NPU_group", "ep", "all_gpus", ...
  std::vector<WorkloadLayer> layers;
  std::set<int64_t> checkpoints;  // layers from which others run again in the backward pass
  std::set<int64_t> initiates;    // layers whose backward pass begins with that

  [[nodiscard]] int64_t Number(const std::string& key, int64_t fallback) const {
    const auto found = numbers.find(key);
    return found == numbers.end() ? fallback : found->second;
  }
};

// Numbers may have a fraction, which is cut off as SimAI does ("8388608.0"). kBadFile:
// "<file>:<line>: ...". HYBRID_CUSTOMIZED and DISTRIBUTED_INFERENCE are refused by name.
Result<LayerWorkload> ParseLayerWorkload(std::string_view text, const std::string& file);

}  // namespace prism::slicer
