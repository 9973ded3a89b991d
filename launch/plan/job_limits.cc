#include "launch/plan/job_limits.h"

#include <algorithm>

#include <fmt/format.h>

namespace prism::launch {

std::optional<SizeLimit> BeyondLimits(const graph::JobSpec& job) {
  const graph::ModelSpec& model = job.model;
  const graph::ParallelSizes& sizes = job.parallel;
  // About four to ten times those of any run so far.
  const SizeLimit limits[] = {
      {"layers", model.layers, 1024},
      {"hidden", model.hidden, 131'072},
      {"heads", model.heads, 2048},
      {"kv_heads", model.kv_heads, 2048},
      {"ffn", model.ffn, 1'048'576},
      {"experts", model.moe.experts, 4096},
      {"moe_topk", model.moe.topk, 256},
      {"moe_ffn", model.moe.expert_ffn, 262'144},
      {"tp", sizes.tp, 1024},
      {"pp", sizes.pp, 512},
      {"vpp", sizes.vpp, 128},
      {"cp", sizes.cp, 1024},
      {"ep", sizes.ep, 4096},
      {"micro_batch × seq_len / cp", job.micro_batch_size * job.seq_len / std::max(sizes.cp, 1),
       4'194'304},
      {"global_batch / (micro_batch × dp)", job.microbatches(), 16'384},
      {"layers × global_batch / (micro_batch × dp)", model.layers * job.microbatches(), 1'048'576},
  };
  for (const SizeLimit& limit : limits) {
    if (limit.value > limit.most) {
      return limit;
    }
  }
  return std::nullopt;
}

Status CheckLimits(const graph::JobSpec& job) {
  if (const std::optional<SizeLimit> beyond = BeyondLimits(job)) {
    return RunFailed(fmt::format("{} is {}; at most {} can be predicted", beyond->name,
                                 beyond->value, beyond->most));
  }
  const graph::ModelSpec& model = job.model;
  if (model.HeadDim() <= 0) {
    return RunFailed(fmt::format("hidden is {}; it must be at least the number of heads, {}",
                                 model.hidden, model.heads));
  }
  return OkStatus();
}

}  // namespace prism::launch
