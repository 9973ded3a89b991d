// PyTorch's FSDP as llm-foundry used it in 2023: layers alone are wrapped, so that embedding and
// head belong to the root.
#include "launch/plan/frameworks/framework.h"

namespace prism::launch {

constexpr Framework kFsdp = {
    .name = "fsdp",
    .style = [](const graph::JobSpec&) -> graph::TrainingStyle {
      return {.attention = graph::AttentionKind::kFlash1,  // Triton's
              .gradient_accumulation_fusion = false,
              .data_parallel = graph::DataParallelKind::kFsdp,
              .gradient_type = DataType::kBfloat16,
              .overlap_param_gather = true,
              .fsdp_root_has_ends = true};
    },
    .last_year = 2024,
};

}  // namespace prism::launch
