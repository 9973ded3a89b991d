// Megatron-LM's layers under DeepSpeed's engine, and DeepSpeed's ZeRO-3 alone. DeepSpeed's pipeline
// engine partitions what it sends over tp, as Megatron does; it has no interleaving and refuses
// ZeRO 2 and 3 (its PipelineEngine).
#include "launch/plan/frameworks/framework.h"

namespace prism::launch {

constexpr Framework kMegatronDeepSpeed = {
    .name = "megatron-deepspeed",
    .style =
        [](const graph::JobSpec& job) {
          graph::TrainingStyle style = kMegatronLm.style(job);
          style.gradient_accumulation_fusion = false;
          style.async_tp_all_reduce = false;
          style.bucket_elements = 500'000'000;  // allreduce_bucket_size
          style.memory = graph::MemoryPattern::kDeepSpeed;
          return style;
        },
    .precision = graph::Precision::kFloat16,
    .last_year = 2022,
    .context_parallelism = false,
    .interleaving = false,
    .zero_in_pipeline = 1,
};

constexpr Framework kDeepSpeedZero = {
    .name = "deepspeed-zero",
    .profile_name = "megatron-deepspeed",
    .style =
        [](const graph::JobSpec& job) {
          graph::TrainingStyle style = kMegatronDeepSpeed.style(job);
          style.data_parallel = graph::DataParallelKind::kFsdp;
          style.overlap_grad_reduce = true;
          style.overlap_param_gather = true;
          return style;
        },
    .precision = graph::Precision::kFloat16,
    .runs_plans = false,
    .last_year = 2022,
};

}  // namespace prism::launch
