// The tensors that a micro-batch leaves on a rank between its forward and its backward pass, and
// those that come and go meanwhile: one entry a tensor, with the rule that it follows from.
// nanotron's are in nanotron_passes.h.
//
// Letters as in Korthikanti et al. 2022 (arXiv 2205.05198, section 4): s sequence, b micro-batch,
// h hidden, f feed-forward width, a heads, t tensor parallel size, v vocabulary; 16-bit tensors
// count 2 bytes an element.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/job.h"
#include "graph/training_style.h"

namespace prism::replayer {

struct Tensor {
  const char* what;
  int64_t bytes;
};

// What one unit (embedding, layer, head) does with memory in one micro-batch.
struct UnitTensors {
  std::vector<Tensor> saved;     // from its forward pass to its backward pass
  std::vector<Tensor> forward;   // beside them at the worst moment of the forward pass
  std::vector<Tensor> backward;  // the same of the backward pass
  std::vector<Tensor> loss;  // of that of the loss, which is over before that of its unit begins

  [[nodiscard]] int64_t saved_bytes() const;
};

UnitTensors EmbeddingTensors(const graph::JobSpec& job, const graph::TrainingStyle& style);

// What a layer keeps in host memory between its passes (Megatron-Core: --offload-modules, by what
// goes into a module); may be combined.
enum OffloadedPart : uint32_t {
  kOffloadAttentionNorm = 1U << 0U,
  kOffloadProjections = 1U << 1U,    // of queries, keys and values
  kOffloadCoreAttention = 1U << 2U,  // and what its backward pass reads
  kOffloadOutputProjection = 1U << 3U,
  kOffloadMlpNorm = 1U << 4U,
  kOffloadExpertInput = 1U << 5U,
  kOffloadExpertActivation = 1U << 6U,
};

// What neither job nor style says of layers.
struct LayerFacts {
  uint32_t offloaded_parts = 0;  // OffloadedPart; what is offloaded is there for a layer at a time
  bool normed_queries = false;   // and keys, each head by itself (Megatron-Core: --qk-layernorm)
};

// `layer` counts over the whole model: a mixture's first ones may be dense, every second one may be
// computed again.
UnitTensors LayerTensors(const graph::JobSpec& job,
                         const graph::TrainingStyle& style,
                         int64_t layer,
                         const LayerFacts& facts = {});

// A layer that predicts further tokens, with what joins its input to the words.
UnitTensors FurtherLayerTensors(const graph::JobSpec& job,
                                const graph::TrainingStyle& style,
                                const LayerFacts& facts = {});

// What the weight gradient of the head reads, where it is computed after all passes.
std::vector<Tensor> DeferredHeadTensors(const graph::JobSpec& job,
                                        const graph::TrainingStyle& style);

UnitTensors HeadTensors(const graph::JobSpec& job, const graph::TrainingStyle& style);

// What torch's pipeline stages hold all through an iteration of which `waiting` micro-batches are
// under way (torch/distributed/pipelining/stage.py): a buffer for each message of each micro-batch,
// but for inputs of those under way, which layers keep; where they are returned, all logits.
std::vector<Tensor> TorchStageTensors(const graph::JobSpec& job,
                                      const graph::TrainingStyle& style,
                                      int32_t stage,
                                      int64_t waiting);

// The output of a stage that another one follows, which is freed once it is sent (Megatron's
// deallocate_pipeline_outputs); DeepSpeed keeps it for the backward pass (pipe_buffers).
UnitTensors BoundaryTensors(const graph::JobSpec& job, const graph::TrainingStyle& style);

}  // namespace prism::replayer
