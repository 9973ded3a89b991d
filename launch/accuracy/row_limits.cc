#include "launch/accuracy/row_limits.h"

#include <cstdint>

#include <fmt/format.h>

namespace prism::launch {

Status CheckLimits(const graph::JobSpec& job) {
  const graph::ModelSpec& model = job.model;
  const graph::ParallelSizes& sizes = job.parallel;
  struct Limit {
    const char* column;
    int64_t value;
    int64_t most;  // some four to ten times that of any run so far
  };
  const Limit limits[] = {
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
      {"micro_batch × seq_len", job.micro_batch_size * job.seq_len, 4'194'304},
      {"global_batch / (micro_batch × dp)", job.microbatches(), 16'384},
      {"layers × global_batch / (micro_batch × dp)", model.layers * job.microbatches(), 1'048'576},
  };
  for (const Limit& limit : limits) {
    if (limit.value > limit.most) {
      return RunFailed(fmt::format("{} is {}, more than the {} that are predicted", limit.column,
                                   limit.value, limit.most));
    }
  }
  if (model.HeadDim() <= 0) {
    return RunFailed(
        fmt::format("hidden is {}, less than one for each of {} heads", model.hidden, model.heads));
  }
  return OkStatus();
}

}  // namespace prism::launch
