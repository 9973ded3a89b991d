// MegaScale (arXiv 2402.15627): Megatron-LM with parallel blocks and with every transfer beside
// compute.
#include "launch/plan/frameworks/framework.h"

namespace prism::launch {

constexpr Framework kMegaScale = {
    .name = "megascale",
    .style = [](const graph::JobSpec&) -> graph::TrainingStyle {
      return {.fused_bias_activation = true,
              .fused_bias_dropout_add = true,
              .fused_norm = true,
              .tp_comm_overlap = true,
              .parallel_block = true,
              .overlap_p2p = true,
              .gradient_type = DataType::kBfloat16,
              .overlap_param_gather = true};
    },
    .last_year = 2023,
};

}  // namespace prism::launch
