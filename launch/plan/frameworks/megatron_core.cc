// Megatron-Core with Transformer Engine's kernels, and what recipes of NeMo, Megatron-Bridge and
// MLPerf submissions enable.
#include "launch/plan/frameworks/framework.h"

namespace prism::launch {

constexpr Framework kMegatronCore = {
    .name = "megatron-core",
    .style = [](const graph::JobSpec& job) -> graph::TrainingStyle {
      const bool has_experts = job.model.moe.experts > 0;
      return {
          .attention = graph::AttentionKind::kCudnn,
          .fused_bias_activation = true,
          .fused_bias_dropout_add = true,
          .fused_norm = true,
          .fused_rope = true,
          .fused_cross_entropy = true,
          .tp_comm_overlap = job.parallel.tp > 1 && job.sequence_parallel,
          // Most recipes with experts since 2025 use DeepEP or HybridEP and, if stages are
          // interleaved, overlap their transfers with the compute of another micro-batch.
          .moe_fused_dispatch = has_experts,
          .moe_overlap = has_experts && job.parallel.vpp > 1,
          // Recipes of DeepSeek-V3, whose number of layers is prime, and of models of its shape.
          .layers_from_front = has_experts && job.model.latent.kv_rank > 0,
          .overlap_p2p = job.parallel.vpp > 1,
          .gradient_type = DataType::kBfloat16,
          .overlap_param_gather = true};
    },
    .gathers_8_bit = true,
};

}  // namespace prism::launch
