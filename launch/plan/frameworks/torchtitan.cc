// torchtitan always shards with FSDP2, and its default policy keeps what a pipeline stage gathered
// for all its micro-batches.
#include "launch/plan/frameworks/framework.h"

namespace prism::launch {

constexpr Framework kTorchtitan = {
    .name = "torchtitan",
    .style =
        [](const graph::JobSpec& job) {
          graph::TrainingStyle style = kFsdp.style(job);
          style.attention = graph::AttentionKind::kFlash;
          style.gradient_type = DataType::kFloat32;  // its mixed precision policy reduces in fp32
          style.cp_torch_ring = true;
          style.expandable_segments = true;
          style.fsdp_root_has_ends = false;
          style.recompute_parts = graph::kRecomputeEverySecondMatmul;
          return style;
        },
    .keeps_gathered_in_pipeline = true,
};

}  // namespace prism::launch
