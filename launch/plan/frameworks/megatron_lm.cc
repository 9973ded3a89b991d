// Megatron-LM of 2022 (arXiv 2205.05198; its release 3.0): fused kernels of Apex and its own,
// gradients in fp16 with fp16 weights, transfers waited for. It has no context parallelism and
// shards only optimizer states.
#include "launch/plan/frameworks/framework.h"

namespace prism::launch {

constexpr Framework kMegatronLm = {
    .name = "megatron-lm",
    .style = [](const graph::JobSpec& job) -> graph::TrainingStyle {
      return {.attention = graph::AttentionKind::kUnfused,
              .dropout = true,
              .fused_bias_activation = true,
              .fused_bias_dropout_add = true,
              .fused_norm = true,
              .compiled_cross_entropy = true,  // exponentials are a new tensor besides the logits
              .async_tp_all_reduce = !job.sequence_parallel,
              .scatter_gather_p2p = true,
              .gradient_type = DataType::kFloat16,
              .overlap_grad_reduce = false};
    },
    .precision = graph::Precision::kFloat16,
    .last_year = 2022,
    .context_parallelism = false,
    .zero = 1,
    .zero_in_pipeline = 1,
    .sums_fp16_alone_narrowly = true,
};

}  // namespace prism::launch
