// The tensors that a micro-batch keeps on a rank between its forward and its backward pass, and the
// temporary ones of each pass: one entry per tensor, with the rule that it follows from. Those of
// nanotron are in nanotron_passes.h.
//
// Letters as in Korthikanti et al. 2022 (arXiv 2205.05198, section 4): s sequence, b micro-batch, h
// hidden, f feed-forward width, a heads, t tensor parallel size, v vocabulary; 16-bit tensors count
// 2 bytes per element.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/job/job.h"
#include "graph/job/training_style.h"

namespace prism::replayer {

struct Tensor {
  const char* what;
  int64_t bytes;
};

// The tensors of one unit (embedding, layer, head) in one micro-batch.
struct UnitTensors {
  std::vector<Tensor> saved;     // from its forward pass to its backward pass
  std::vector<Tensor> forward;   // in addition, at the peak of the forward pass
  std::vector<Tensor> backward;  // the same for the backward pass
  std::vector<Tensor> loss;      // of the loss's backward pass, which ends before its unit's begins

  [[nodiscard]] int64_t saved_bytes() const;
};

UnitTensors EmbeddingTensors(const graph::JobSpec& job, const graph::TrainingStyle& style);

// What a layer keeps in host memory between its passes (Megatron-Core: --offload-modules, named by
// the input of a module); may be combined.
enum OffloadedPart : uint32_t {
  kOffloadAttentionNorm = 1U << 0U,
  kOffloadProjections = 1U << 1U,    // of queries, keys and values
  kOffloadCoreAttention = 1U << 2U,  // and what its backward pass reads
  kOffloadOutputProjection = 1U << 3U,
  kOffloadMlpNorm = 1U << 4U,
  kOffloadExpertInput = 1U << 5U,
  kOffloadExpertActivation = 1U << 6U,
};

// What neither the job nor the style says about layers.
struct LayerFacts {
  uint32_t offloaded_parts = 0;  // OffloadedPart; those are on the device one layer at a time
  bool normed_queries = false;   // and keys, each head separately (Megatron-Core: --qk-layernorm)
};

// `layer` counts over the whole model: the first ones of a mixture may be dense, every second one
// may be recomputed.
UnitTensors LayerTensors(const graph::JobSpec& job,
                         const graph::TrainingStyle& style,
                         int64_t layer,
                         const LayerFacts& facts = {});

// A layer that predicts further tokens, with the part that joins its input with the embedded
// tokens.
UnitTensors FurtherLayerTensors(const graph::JobSpec& job,
                                const graph::TrainingStyle& style,
                                const LayerFacts& facts = {});

// What the weight gradient of the head reads if it is computed after all passes.
std::vector<Tensor> DeferredHeadTensors(const graph::JobSpec& job,
                                        const graph::TrainingStyle& style);

UnitTensors HeadTensors(const graph::JobSpec& job, const graph::TrainingStyle& style);

// What torch's pipeline stages hold throughout an iteration with `waiting` micro-batches in flight
// (torch/distributed/pipelining/stage.py): a buffer for each message of each micro-batch, except
// the inputs of those in flight, which the layers keep; all logits, if they are returned.
std::vector<Tensor> TorchStageTensors(const graph::JobSpec& job,
                                      const graph::TrainingStyle& style,
                                      int32_t stage,
                                      int64_t waiting);

// The output of a stage that is not the last, which is freed once it is sent (Megatron's
// deallocate_pipeline_outputs); DeepSpeed keeps it for the backward pass (pipe_buffers).
UnitTensors BoundaryTensors(const graph::JobSpec& job, const graph::TrainingStyle& style);

}  // namespace prism::replayer
