#include "experiments/published/effects.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "launch/inputs/options.h"

namespace prism::launch {
namespace {

// So large that what runs at this rate takes no time (replayer/cost/parameters.cc has the limits).
constexpr double kFree = 1e18;       // byte/s
constexpr double kFreeRatio = 1e3;   // of a nominal rate
constexpr double kNoStalls = 65536;  // nodes: more than any job has

struct Setting {
  std::string_view key;
  double value;
};

struct EffectRule {
  Effect effect;
  std::array<Setting, 14> settings;  // of every cluster; the rest is empty
  void (*change)(RowPlan*);          // of every job; may be null
};

void WithoutDataParallelism(RowPlan* plan) {
  graph::ParallelSizes& sizes = plan->job.parallel;
  if (sizes.ep > 1) {
    return;  // groups of experts lie inside those of data parallelism
  }
  plan->job.global_batch_size /= sizes.dp;
  sizes.dp = 1;
}

void WithoutDataParallelOverlap(RowPlan* plan) {
  plan->style.overlap_grad_reduce = false;
  plan->style.overlap_param_gather = false;
}

void WithoutTensorParallelOverlap(RowPlan* plan) {
  plan->style.tp_comm_overlap = false;
  plan->style.async_tp_all_reduce = false;
}

void WithoutSequenceParallelism(RowPlan* plan) {
  plan->job.sequence_parallel = false;
}

void WithoutRecompute(RowPlan* plan) {
  plan->job.recompute = graph::Recompute::kNone;
}

void WithoutDropout(RowPlan* plan) {
  plan->style.dropout = false;
}

void WithoutScatteredMessages(RowPlan* plan) {
  plan->style.scatter_gather_p2p = false;
}

void WithoutFp32Sums(RowPlan* plan) {
  if (plan->style.separate_fp32_gradients) {
    plan->style.separate_fp32_gradients = false;
    plan->style.gradient_type = DataType::kBfloat16;
  }
}

constexpr auto kRules = std::to_array<EffectRule>({
    {{"wave-quantisation", "products take the time of their flops, not of whole tiles and waves"},
     {{{"gpu.matmul_tile_m", 1}, {"gpu.matmul_tile_n", 1}}},
     nullptr},
    {{"short-inner-loops", "products over a short dimension run at the rate of long ones"},
     {{{"gpu.matmul_half_k", 0}}},
     nullptr},
    {{"split-k", "no product is cut along its inner dimension"},
     {{{"gpu.matmul_most_splits", 1}}},
     nullptr},
    {{"misaligned-rows", "rows off 16 bytes cost nothing"},
     {{{"gpu.matmul_misaligned_factor", 1}}},
     nullptr},
    {{"attention-shape", "attention at one rate whatever its sequence and head dimension"},
     {{{"gpu.attention_half_seq", 0}, {"gpu.attention_half_head_dim", 0}}},
     nullptr},
    {{"memory-bound-kernels", "what is bound by memory takes the shortest time of a kernel"},
     {{{"gpu.hbm_efficiency", kFreeRatio}}},
     nullptr},
    {{"launch-floor", "kernels may be as short as their work, without gaps between them"},
     {{{"gpu.kernel_floor_ns", 0}, {"gpu.kernel_gap_ns", 0}, {"nccl.launch_ns", 0}}},
     nullptr},
    {{"host-issue", "issuing ops takes the host no time"},
     {{{"host.kernel_ns", 0},
       {"host.collective_ns", 0},
       {"host.collective_rank_ns", 0},
       {"host.event_record_ns", 0},
       {"host.event_wait_ns", 0},
       {"host.event_sync_ns", 0},
       {"host.stream_sync_ns", 0},
       {"host.device_sync_ns", 0},
       {"host.memcpy_ns", 0},
       {"host.memset_ns", 0},
       {"host.peer_group_ns", 0}}},
     nullptr},
    {{"iteration-host-time", "the host does nothing between iterations"},
     {{{"host.iteration_ns", 0}}},
     nullptr},
    {{"sustained-clock", "every site runs at the clock of the GPU's profile"},
     {{{"gpu.sustained_clock", 1}}},
     nullptr},
    {{"overlap-slowdown", "compute beside a collective is as fast as alone"},
     {{{"overlap.compute_slowdown", 1}}},
     nullptr},
    {{"nvlink", "transfers inside a node take their latency only"},
     {{{"net.nvlink_bytes_per_s", kFree}, {"nccl.ring_local_bytes_per_s", kFree}}},
     nullptr},
    {{"hierarchical-rings", "nodes are no border: NICs are never the slowest link"},
     {{{"net.nic_bytes_per_s", kFree}}},
     nullptr},
    {{"shared-nics", "GPUs that share a NIC lose nothing by it"},
     {{{"net.shared_nic_factor", 1}}},
     nullptr},
    {{"crossed-nics", "rings get all of their NICs wherever their GPUs are"},
     {{{"net.crossed_nic_factor", 1}}},
     nullptr},
    {{"network-messages", "a step of a ring over nodes costs its bytes only"},
     {{{"net.message_ns", 0}, {"net.hop_ns", 0}}},
     nullptr},
    {{"p2p-latency", "sends and receives cost their bytes only, and never stall"},
     {{{"p2p.base_ns", 0}, {"net.stall_nodes", kNoStalls}, {"net.stall_group_nodes", kNoStalls}}},
     nullptr},
    {{"scattered-messages", "each tensor-parallel rank sends the whole activation"},
     {},
     WithoutScatteredMessages},
    {{"data-parallelism", "replicas do not communicate"}, {}, WithoutDataParallelism},
    {{"data-parallel-overlap", "reductions and gathers are waited for"},
     {},
     WithoutDataParallelOverlap},
    {{"tensor-parallel-overlap", "tensor-parallel collectives are waited for"},
     {},
     WithoutTensorParallelOverlap},
    {{"sequence-parallelism", "activations are reduced whole, norms and dropout replicated"},
     {},
     WithoutSequenceParallelism},
    {{"recompute", "nothing is computed again"}, {}, WithoutRecompute},
    {{"dropout", "nothing is dropped out"}, {}, WithoutDropout},
    {{"fp32-gradient-sums", "DeepSpeed sums bf16 gradients as fp16 ones"}, {}, WithoutFp32Sums},
});

constexpr auto kEffects = [] {
  std::array<Effect, kRules.size()> effects;
  for (size_t i = 0; i < effects.size(); ++i) {
    effects[i] = kRules[i].effect;
  }
  return effects;
}();

}  // namespace

std::span<const Effect> Effects() {
  return kEffects;
}

Status TakeAway(const std::string& effect,
                std::vector<RowPlan>* plans,
                ProfileOverrides* overrides) {
  const auto rule = std::find_if(kRules.begin(), kRules.end(), [&](const EffectRule& known) {
    return known.effect.name == effect;
  });
  if (rule == kRules.end()) {
    std::vector<std::string> names;
    for (const Effect& known : kEffects) {
      names.emplace_back(known.name);
    }
    const std::string near = NearestName(effect, names);
    return InvalidArgument(fmt::format("unknown effect '{}'; {}choose one of {}", effect,
                                       near.empty() ? "" : fmt::format("did you mean {}? ", near),
                                       fmt::join(names, ", ")));
  }
  for (RowPlan& plan : *plans) {
    if (!plan.cannot_predict.empty()) {
      continue;
    }
    for (const Setting& setting : rule->settings) {
      if (!setting.key.empty()) {
        // The last profile wins over all others.
        (*overrides)[plan.cluster.profiles.back()][std::string(setting.key)] = setting.value;
      }
    }
    if (rule->change != nullptr) {
      rule->change(&plan);
    }
  }
  return OkStatus();
}

}  // namespace prism::launch
