// Hugging Face's Trainer and Accelerate: kernels of eager PyTorch.
#include "launch/plan/frameworks/framework.h"

namespace prism::launch {

constexpr Framework kHuggingFace = {
    .name = "hugging-face",
    .profile_name = "eager",
    .style = [](const graph::JobSpec&) -> graph::TrainingStyle {
      return {.attention = graph::AttentionKind::kUnfused,
              .dropout = true,
              .fused_norm = true,
              .gradient_accumulation_fusion = false};
    },
    .runs_plans = false,
};

}  // namespace prism::launch
