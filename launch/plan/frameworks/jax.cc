// MaxText and PaxML: XLA compiles the whole step into one program.
#include "launch/plan/frameworks/framework.h"

namespace prism::launch {

constexpr Framework kJax = {
    .name = "jax",
    .style =
        [](const graph::JobSpec& job) {
          graph::TrainingStyle style = kFsdp.style(job);
          style.attention = graph::AttentionKind::kCudnn;
          style.compiled = true;
          style.host_cost = graph::HostCost::kGraph;
          style.fp8_param_gather = true;  // XLA casts shards before it gathers them
          style.recompute_parts = uint32_t{graph::kRecomputeNorm} |
                                  uint32_t{graph::kRecomputeActivation} |
                                  uint32_t{graph::kRecomputeMlp};
          return style;
        },
    .runs_plans = false,
};

}  // namespace prism::launch
