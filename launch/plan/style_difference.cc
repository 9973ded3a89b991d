#include "launch/plan/style_difference.h"

namespace prism::launch {
namespace {

using graph::TrainingStyle;

template <auto Member>
bool Differ(const TrainingStyle& a, const TrainingStyle& b) {
  return a.*Member != b.*Member;
}

struct StyleField {
  const char* words;
  bool (*differ)(const TrainingStyle& a, const TrainingStyle& b);
};

using T = TrainingStyle;
constexpr StyleField kFields[] = {
    {"kernels of the built-in program", Differ<&T::built_in>},
    {"attention kernel", Differ<&T::attention>},
    {"dropout", Differ<&T::dropout>},
    {"fused bias and activation", Differ<&T::fused_bias_activation>},
    {"fused bias, dropout and sum", Differ<&T::fused_bias_dropout_add>},
    {"fused norm", Differ<&T::fused_norm>},
    {"fused softmax", Differ<&T::fused_softmax>},
    {"fused rotary embedding", Differ<&T::fused_rope>},
    {"fused cross entropy", Differ<&T::fused_cross_entropy>},
    {"compiled cross entropy", Differ<&T::compiled_cross_entropy>},
    {"gradient accumulation fusion", Differ<&T::gradient_accumulation_fusion>},
    {"torch.compile", Differ<&T::compiled>},
    {"host cost", Differ<&T::host_cost>},
    {"CUDA graphs", Differ<&T::graph_parts>},
    {"recomputed parts", Differ<&T::recompute_parts>},
    {"adapters", Differ<&T::frozen_weights>},
    {"adapters' dropout", Differ<&T::adapter_dropout>},
    {"adapters of all products", Differ<&T::adapters_of_all>},
    {"chunked head", Differ<&T::chunked_head>},
    {"tensor-parallel overlap", Differ<&T::tp_comm_overlap>},
    {"asynchronous tensor-parallel all-reduce", Differ<&T::async_tp_all_reduce>},
    {"context parallelism by gathers", Differ<&T::cp_all_gather>},
    {"context parallelism by all-to-all", Differ<&T::cp_all_to_all>},
    {"context parallelism by torch's ring", Differ<&T::cp_torch_ring>},
    {"parallel block", Differ<&T::parallel_block>},
    {"packed sequences", Differ<&T::packed_length>},
    {"dispatcher of experts", Differ<&T::moe_fused_dispatch>},
    {"overlap of experts", Differ<&T::moe_overlap>},
    {"dropped tokens", Differ<&T::moe_drop_and_pad>},
    {"layers from the front", Differ<&T::layers_from_front>},
    {"layers of the first stage", Differ<&T::first_stage_layers>},
    {"layers of the last stage", Differ<&T::last_stage_layers>},
    {"schedule", Differ<&T::schedule>},
    {"balanced stages", Differ<&T::balanced_stages>},
    {"pipeline overlap", Differ<&T::overlap_p2p>},
    {"scattered pipeline messages", Differ<&T::scatter_gather_p2p>},
    {"kept outputs", Differ<&T::keeps_pipeline_outputs>},
    {"serial pipeline messages", Differ<&T::serial_p2p>},
    {"data parallelism", Differ<&T::data_parallel>},
    {"type of gradients", Differ<&T::gradient_type>},
    {"separate fp32 gradients", Differ<&T::separate_fp32_gradients>},
    {"memory pattern", Differ<&T::memory>},
    {"expandable segments", Differ<&T::expandable_segments>},
    {"gradients overlap", Differ<&T::overlap_grad_reduce>},
    {"parameters overlap", Differ<&T::overlap_param_gather>},
    {"bucket size", Differ<&T::bucket_elements>},
    {"bucket size a rank", Differ<&T::bucket_elements_per_rank>},
    {"shards of FSDP", Differ<&T::shard_size>},
    {"resharding after forward", Differ<&T::reshard_after_forward>},
    {"prefetched layers", Differ<&T::prefetch>},
    {"root of FSDP", Differ<&T::fsdp_root_has_ends>},
    {"8-bit gathers", Differ<&T::fp8_param_gather>},
    {"gradient norm", Differ<&T::gradient_norm>},
    {"fused optimizer", Differ<&T::fused_optimizer>},
    {"loss scaling", Differ<&T::loss_scaling>},
};

}  // namespace

std::vector<std::string> StyleDifferences(const TrainingStyle& a, const TrainingStyle& b) {
  std::vector<std::string> words;
  for (const StyleField& field : kFields) {
    if (field.differ(a, b)) {
      words.emplace_back(field.words);
    }
  }
  return words;
}

}  // namespace prism::launch
