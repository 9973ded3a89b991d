// nanotron: stages balanced by cost, messages of a boundary one by one, DDP's buckets, gradients
// summed in fp32. It has no interleaving and shards only optimizer states.
#include "launch/plan/frameworks/framework.h"

namespace prism::launch {

constexpr Framework kNanotron = {
    .name = "nanotron",
    .style = [](const graph::JobSpec& job) -> graph::TrainingStyle {
      return {.fused_norm = true,
              .fused_rope = true,
              .gradient_accumulation_fusion = false,
              .async_tp_all_reduce = job.parallel.tp > 1,
              .balanced_stages = true,
              .serial_p2p = true,
              .memory = graph::MemoryPattern::kNanotron,
              .bucket_elements = 25 * 1024 * 1024 / 2,  // 25 MB of weights
              .bucket_elements_per_rank = 0};
    },
    .interleaving = false,
    .zero = 1,
    .zero_in_pipeline = 1,
};

}  // namespace prism::launch
