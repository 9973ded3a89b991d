#include "launch/inputs/model_architectures.h"

#include <algorithm>

#include <fmt/format.h>

namespace prism::launch {
namespace {

constexpr Architecture kArchitectures[] = {
    {"deepseek_v2", "DeepseekV2ForCausalLM"},
    {"deepseek_v3", "DeepseekV3ForCausalLM", graph::BlockKind::kLlama, kCorrectedRouters},
    {"gemma", "GemmaForCausalLM", graph::BlockKind::kLlama, kTied | kWholeBias},
    {"gemma2", "Gemma2ForCausalLM", graph::BlockKind::kLlama,
     kTied | kWholeBias | kFourNorms | kEverySecond},
    {"gemma3_text", "Gemma3ForCausalLM", graph::BlockKind::kLlama,
     kTied | kWholeBias | kHeadNorms | kFourNorms | kFiveOfSix},
    {"glm", "GlmForCausalLM", graph::BlockKind::kLlama, kBiased},
    {"glm4", "Glm4ForCausalLM", graph::BlockKind::kLlama, kBiased | kFourNorms},
    {"glm4_moe", "Glm4MoeForCausalLM", graph::BlockKind::kLlama, kNormsByKey | kCorrectedRouters},
    {"gpt2", "GPT2LMHeadModel", graph::BlockKind::kGpt, kTied},
    {"gpt_oss", "GptOssForCausalLM", graph::BlockKind::kLlama,
     kBiased | kWholeBias | kEverySecond | kSinks | kBiasedExperts},
    {"granite", "GraniteForCausalLM", graph::BlockKind::kLlama, kWholeBias},
    {"kimi_k2", "DeepseekV3ForCausalLM", graph::BlockKind::kLlama, kCorrectedRouters},
    {"llama", "LlamaForCausalLM", graph::BlockKind::kLlama, kWholeBias},
    {"llama4_text", "Llama4ForCausalLM", graph::BlockKind::kLlama, kWholeBias | kSharedIsExpert},
    {"mistral", "MistralForCausalLM", graph::BlockKind::kLlama, kWindowed},
    {"mixtral", "MixtralForCausalLM", graph::BlockKind::kLlama, kWindowed},
    {"nemotron", "NemotronForCausalLM", graph::BlockKind::kNemotron, kWholeBias},
    {"olmo2", "Olmo2ForCausalLM", graph::BlockKind::kLlama, kWholeBias | kWideNorms},
    {"olmoe", "OlmoeForCausalLM", graph::BlockKind::kLlama, kWholeBias | kWideNorms},
    {"opt", "OPTForCausalLM", graph::BlockKind::kGpt, kTied | kTwoMorePositions},
    {"phi3", "Phi3ForCausalLM", graph::BlockKind::kLlama, kWindowed},
    {"qwen2", "Qwen2ForCausalLM", graph::BlockKind::kLlama, kBiased},
    {"qwen2_moe", "Qwen2MoeForCausalLM", graph::BlockKind::kLlama, kBiased | kSharedGate},
    {"qwen3", "Qwen3ForCausalLM", graph::BlockKind::kLlama, kWholeBias | kHeadNorms},
    {"qwen3_moe", "Qwen3MoeForCausalLM", graph::BlockKind::kLlama, kWholeBias | kHeadNorms},
    {"seed_oss", "SeedOssForCausalLM", graph::BlockKind::kLlama, kBiased},
    {"smollm3", "SmolLM3ForCausalLM", graph::BlockKind::kLlama, kTied | kWholeBias},
};

// What transformers takes where a published file of the type leaves the key out.
struct Default {
  std::string_view type;
  std::string_view key;
  int64_t value = 0;
};

constexpr Default kDefaults[] = {
    {"gemma", "head_dim", 256},
    {"gemma2", "head_dim", 256},
    {"gemma3_text", "head_dim", 256},
    {"gemma3_text", "max_position_embeddings", 131'072},
    {"gemma3_text", "num_attention_heads", 8},
    {"gemma3_text", "num_key_value_heads", 4},
    {"gemma3_text", "vocab_size", 262'208},
    {"glm", "head_dim", 128},
    {"glm4", "head_dim", 128},
    {"gpt_oss", "head_dim", 64},
    {"llama4_text", "head_dim", 128},
    {"mistral", "num_key_value_heads", 8},
    {"mixtral", "num_key_value_heads", 8},
    {"qwen3", "head_dim", 128},
    {"seed_oss", "head_dim", 128},
};

// Keys without influence on time and memory, as far as a model's description goes.
constexpr std::string_view kIgnored =
    " architectures attention_multiplier attn_scale attn_temperature_tuning auto_map "
    "aux_loss_alpha bos_token_id cache_implementation decoder_start_token_id dtype "
    "embedding_multiplier eos_token_id ep_size floor_scale for_llm_class "
    "initial_context_length initializer_range layer_norm_eps layer_norm_epsilon "
    "logits_scaling model_type n_group no_rope_layer_interval no_rope_layers norm_eps "
    "norm_topk_prob original_max_position_embeddings pad_token_id partial_rotary_factor "
    "prefix pretraining_tp query_pre_attn_scalar residual_multiplier rms_norm_eps "
    "rope_interleave rope_interleaved rope_local_base_freq rope_parameters rope_scaling "
    "rope_theta routed_scaling_factor router_aux_loss_coef router_jitter_noise "
    "scale_attn_weights scoring_func sep_token_id seq_aux summary_activation "
    "summary_first_dropout summary_proj_to_labels summary_type summary_use_proj swiglu_alpha "
    "swiglu_limit task_specific_params topk_group topk_method torch_dtype "
    "transformers_version unk_token_id use_cache ";

}  // namespace

const Architecture* FindArchitecture(std::string_view type, std::string_view model) {
  const Architecture* found = std::ranges::find(kArchitectures, type, &Architecture::type);
  if (found == std::end(kArchitectures)) {
    found = std::ranges::find(kArchitectures, model, &Architecture::model);
  }
  return found == std::end(kArchitectures) ? nullptr : found;
}

std::vector<std::string_view> ArchitectureTypes() {
  std::vector<std::string_view> types;
  for (const Architecture& known : kArchitectures) {
    types.push_back(known.type);
  }
  return types;
}

std::optional<int64_t> DefaultOf(const Architecture& architecture, std::string_view key) {
  for (const Default& entry : kDefaults) {
    if (entry.type == architecture.type && entry.key == key) {
      return entry.value;
    }
  }
  return std::nullopt;
}

bool IsIgnoredKey(std::string_view key) {
  return kIgnored.find(fmt::format(" {} ", key)) != std::string_view::npos;
}

}  // namespace prism::launch
