// Published config.json files: what they become, and what a damaged or unknown one is refused for.
// The numbers of parameters are those that transformers counts, for DeepSeek-V3, Kimi K2 and
// GLM-4.5 with the biases that balance their routers, which it keeps beside the parameters.
#include "launch/inputs/model_config.h"

#include <filesystem>
#include <fstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "launch/inputs/presets.h"
#include "tests/support/scratch_folder.h"

namespace prism::launch {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

struct Published {
  const char* name;
  int64_t parameters;
  const char* text;
};

constexpr Published kPublished[] = {
    {"Llama-2-7b", 6'738'415'616,
     R"({"architectures":["LlamaForCausalLM"],"model_type":"llama","hidden_act":"silu",
"hidden_size":4096,"intermediate_size":11008,"num_hidden_layers":32,
"num_attention_heads":32,"num_key_value_heads":32,"vocab_size":32000,
"tie_word_embeddings":false,"max_position_embeddings":4096})"},
    {"Llama-3.1-8B", 8'030'261'248,
     R"({"architectures":["LlamaForCausalLM"],"model_type":"llama","hidden_act":"silu",
"hidden_size":4096,"intermediate_size":14336,"num_hidden_layers":32,
"num_attention_heads":32,"num_key_value_heads":8,"vocab_size":128256,
"tie_word_embeddings":false,"max_position_embeddings":131072,"attention_bias":false,
"mlp_bias":false})"},
    {"Llama-3.2-1B", 1'235'814'400,
     R"({"architectures":["LlamaForCausalLM"],"model_type":"llama","hidden_act":"silu",
"hidden_size":2048,"intermediate_size":8192,"num_hidden_layers":16,
"num_attention_heads":32,"num_key_value_heads":8,"vocab_size":128256,
"tie_word_embeddings":true,"max_position_embeddings":131072,"head_dim":64})"},
    {"Mistral-7B-v0.1", 7'241'732'096,
     R"({"architectures":["MistralForCausalLM"],"model_type":"mistral","hidden_act":"silu",
"hidden_size":4096,"intermediate_size":14336,"num_hidden_layers":32,
"num_attention_heads":32,"num_key_value_heads":8,"vocab_size":32000,
"tie_word_embeddings":false,"max_position_embeddings":32768,"sliding_window":4096})"},
    {"Mixtral-8x7B", 46'702'792'704,
     R"({"architectures":["MixtralForCausalLM"],"model_type":"mixtral","hidden_act":"silu",
"hidden_size":4096,"intermediate_size":14336,"num_hidden_layers":32,
"num_attention_heads":32,"num_key_value_heads":8,"vocab_size":32000,
"tie_word_embeddings":false,"max_position_embeddings":131072,"num_local_experts":8,
"num_experts_per_tok":2,"sliding_window":null})"},
    {"Qwen2.5-7B", 7'615'616'512,
     R"({"architectures":["Qwen2ForCausalLM"],"model_type":"qwen2","hidden_act":"silu",
"hidden_size":3584,"intermediate_size":18944,"num_hidden_layers":28,
"num_attention_heads":28,"num_key_value_heads":4,"vocab_size":152064,
"tie_word_embeddings":false,"max_position_embeddings":131072,"use_sliding_window":false,
"sliding_window":131072,"max_window_layers":28})"},
    {"Qwen1.5-MoE-A2.7B", 14'315'784'192,
     R"({"architectures":["Qwen2MoeForCausalLM"],"model_type":"qwen2_moe","hidden_act":"silu",
"hidden_size":2048,"intermediate_size":5632,"num_hidden_layers":24,
"num_attention_heads":16,"num_key_value_heads":16,"vocab_size":151936,
"tie_word_embeddings":false,"max_position_embeddings":131072,
"moe_intermediate_size":1408,"shared_expert_intermediate_size":5632,"num_experts":60,
"num_experts_per_tok":4,"decoder_sparse_step":1,"use_sliding_window":false,
"sliding_window":32768,"max_window_layers":21})"},
    {"Qwen3-0.6B", 596'049'920,
     R"({"architectures":["Qwen3ForCausalLM"],"model_type":"qwen3","hidden_act":"silu",
"hidden_size":1024,"intermediate_size":3072,"num_hidden_layers":28,
"num_attention_heads":16,"num_key_value_heads":8,"vocab_size":151936,
"tie_word_embeddings":true,"max_position_embeddings":40960,"head_dim":128,
"attention_bias":false,"use_sliding_window":false,"sliding_window":null,
"max_window_layers":28})"},
    {"Qwen3-8B", 8'190'735'360,
     R"({"architectures":["Qwen3ForCausalLM"],"model_type":"qwen3","hidden_act":"silu",
"hidden_size":4096,"intermediate_size":12288,"num_hidden_layers":36,
"num_attention_heads":32,"num_key_value_heads":8,"vocab_size":151936,
"tie_word_embeddings":false,"max_position_embeddings":40960,"head_dim":128,
"attention_bias":false,"use_sliding_window":false,"sliding_window":null,
"max_window_layers":36})"},
    {"Qwen3-30B-A3B", 30'532'122'624,
     R"({"architectures":["Qwen3MoeForCausalLM"],"model_type":"qwen3_moe","hidden_act":"silu",
"hidden_size":2048,"intermediate_size":6144,"num_hidden_layers":48,
"num_attention_heads":32,"num_key_value_heads":4,"vocab_size":151936,
"tie_word_embeddings":false,"max_position_embeddings":40960,"head_dim":128,
"moe_intermediate_size":768,"num_experts":128,"num_experts_per_tok":8,
"decoder_sparse_step":1,"mlp_only_layers":[],"norm_topk_prob":true,
"router_aux_loss_coef":0.001})"},
    {"gpt-oss-20b", 20'914'757'184,
     R"({"architectures":["GptOssForCausalLM"],"model_type":"gpt_oss","hidden_act":"silu",
"hidden_size":2880,"intermediate_size":2880,"num_hidden_layers":24,
"num_attention_heads":64,"num_key_value_heads":8,"vocab_size":201088,
"tie_word_embeddings":false,"max_position_embeddings":131072,"attention_bias":true,
"head_dim":64,"num_local_experts":32,"num_experts_per_tok":4,"experts_per_token":4,
"sliding_window":128,"swiglu_limit":7.0,"initial_context_length":4096})"},
    {"gpt-oss-120b", 116'829'156'672,
     R"({"architectures":["GptOssForCausalLM"],"model_type":"gpt_oss","hidden_act":"silu",
"hidden_size":2880,"intermediate_size":2880,"num_hidden_layers":36,
"num_attention_heads":64,"num_key_value_heads":8,"vocab_size":201088,
"tie_word_embeddings":false,"max_position_embeddings":131072,"attention_bias":true,
"head_dim":64,"num_local_experts":128,"num_experts_per_tok":4,"experts_per_token":4,
"sliding_window":128,"swiglu_limit":7.0,"initial_context_length":4096})"},
    {"Llama-4-Scout-17B-16E", 107'769'861'120,
     R"({"architectures":["Llama4ForConditionalGeneration"],"model_type":"llama4",
"text_config":{"model_type":"llama4_text","hidden_act":"silu","hidden_size":5120,
"intermediate_size":8192,"num_hidden_layers":48,"num_attention_heads":40,
"num_key_value_heads":8,"vocab_size":202048,"tie_word_embeddings":false,
"max_position_embeddings":131072,"head_dim":128,"intermediate_size_mlp":16384,
"num_local_experts":16,"num_experts_per_tok":1,"interleave_moe_layer_step":1,
"attention_chunk_size":8192,"use_qk_norm":true,"no_rope_layers":[]},
"vision_config":{"hidden_size":1408}})"},
    {"Llama-4-Maverick-17B-128E", 400'711'848'960,
     R"({"architectures":["Llama4ForConditionalGeneration"],"model_type":"llama4",
"text_config":{"model_type":"llama4_text","hidden_act":"silu","hidden_size":5120,
"intermediate_size":8192,"num_hidden_layers":48,"num_attention_heads":40,
"num_key_value_heads":8,"vocab_size":202048,"tie_word_embeddings":false,
"max_position_embeddings":131072,"head_dim":128,"intermediate_size_mlp":16384,
"num_local_experts":128,"num_experts_per_tok":1,"interleave_moe_layer_step":2,
"attention_chunk_size":8192,"use_qk_norm":false,"no_rope_layers":[]},
"vision_config":{"hidden_size":1408}})"},
    {"DeepSeek-V3", 671'026'419'200,
     R"({"architectures":["DeepseekV3ForCausalLM"],"model_type":"deepseek_v3",
"hidden_act":"silu","hidden_size":7168,"intermediate_size":18432,"num_hidden_layers":61,
"num_attention_heads":128,"num_key_value_heads":128,"vocab_size":129280,
"tie_word_embeddings":false,"max_position_embeddings":163840,
"moe_intermediate_size":2048,"n_routed_experts":256,"num_experts_per_tok":8,
"n_shared_experts":1,"first_k_dense_replace":3,"moe_layer_freq":1,"q_lora_rank":1536,
"kv_lora_rank":512,"qk_nope_head_dim":128,"qk_rope_head_dim":64,"v_head_dim":128,
"num_nextn_predict_layers":1,"scoring_func":"sigmoid","topk_method":"noaux_tc",
"n_group":8,"topk_group":4,"quantization_config":{"quant_method":"fp8"}})"},
    {"DeepSeek-V2-Lite", 15'706'484'224,
     R"({"architectures":["DeepseekV2ForCausalLM"],"model_type":"deepseek_v2",
"hidden_act":"silu","hidden_size":2048,"intermediate_size":10944,"num_hidden_layers":27,
"num_attention_heads":16,"num_key_value_heads":16,"vocab_size":102400,
"tie_word_embeddings":false,"max_position_embeddings":131072,
"moe_intermediate_size":1408,"n_routed_experts":64,"num_experts_per_tok":6,
"n_shared_experts":2,"first_k_dense_replace":1,"moe_layer_freq":1,"q_lora_rank":null,
"kv_lora_rank":512,"qk_nope_head_dim":128,"qk_rope_head_dim":64,"v_head_dim":128,
"scoring_func":"softmax","topk_method":"greedy"})"},
    {"Kimi-K2-Base", 1'026'408'232'448,
     R"({"architectures":["DeepseekV3ForCausalLM"],"model_type":"kimi_k2","hidden_act":"silu",
"hidden_size":7168,"intermediate_size":18432,"num_hidden_layers":61,
"num_attention_heads":64,"num_key_value_heads":64,"vocab_size":163840,
"tie_word_embeddings":false,"max_position_embeddings":131072,
"moe_intermediate_size":2048,"n_routed_experts":384,"num_experts_per_tok":8,
"n_shared_experts":1,"first_k_dense_replace":1,"moe_layer_freq":1,"q_lora_rank":1536,
"kv_lora_rank":512,"qk_nope_head_dim":128,"qk_rope_head_dim":64,"v_head_dim":128,
"num_nextn_predict_layers":0,"scoring_func":"sigmoid","topk_method":"noaux_tc",
"n_group":1,"topk_group":1})"},
    {"Nemotron-4-340B", 341'029'195'776,
     R"({"architectures":["NemotronForCausalLM"],"model_type":"nemotron","hidden_act":"relu2",
"hidden_size":18432,"intermediate_size":73728,"num_hidden_layers":96,
"num_attention_heads":96,"num_key_value_heads":8,"vocab_size":256000,
"tie_word_embeddings":false,"max_position_embeddings":4096,"norm_eps":1e-05,
"partial_rotary_factor":0.5})"},
    {"glm-4-9b-hf", 9'399'951'360,
     R"({"architectures":["GlmForCausalLM"],"model_type":"glm","hidden_act":"silu",
"hidden_size":4096,"intermediate_size":13696,"num_hidden_layers":40,
"num_attention_heads":32,"num_key_value_heads":2,"vocab_size":151552,
"tie_word_embeddings":false,"max_position_embeddings":131072,"attention_bias":true,
"head_dim":128,"partial_rotary_factor":0.5})"},
    {"GLM-4-32B-0414", 32'566'081'536,
     R"({"architectures":["Glm4ForCausalLM"],"model_type":"glm4","hidden_act":"silu",
"hidden_size":6144,"intermediate_size":23040,"num_hidden_layers":61,
"num_attention_heads":48,"num_key_value_heads":2,"vocab_size":151552,
"tie_word_embeddings":false,"max_position_embeddings":131072,"attention_bias":false,
"head_dim":128,"partial_rotary_factor":0.5})"},
    {"GLM-4.5", 352'797'829'024,
     R"({"architectures":["Glm4MoeForCausalLM"],"model_type":"glm4_moe","hidden_act":"silu",
"hidden_size":5120,"intermediate_size":12288,"num_hidden_layers":92,
"num_attention_heads":96,"num_key_value_heads":8,"vocab_size":151552,
"tie_word_embeddings":false,"max_position_embeddings":131072,"attention_bias":true,
"head_dim":128,"moe_intermediate_size":1536,"n_routed_experts":160,
"num_experts_per_tok":8,"n_shared_experts":1,"first_k_dense_replace":3,
"use_qk_norm":true,"num_nextn_predict_layers":1,"n_group":1,"topk_group":1,
"routed_scaling_factor":2.5,"partial_rotary_factor":0.5})"},
    {"GLM-4.5-Air", 106'852'251'264,
     R"({"architectures":["Glm4MoeForCausalLM"],"model_type":"glm4_moe","hidden_act":"silu",
"hidden_size":4096,"intermediate_size":10944,"num_hidden_layers":46,
"num_attention_heads":96,"num_key_value_heads":8,"vocab_size":151552,
"tie_word_embeddings":false,"max_position_embeddings":131072,"attention_bias":true,
"head_dim":128,"moe_intermediate_size":1408,"n_routed_experts":128,
"num_experts_per_tok":8,"n_shared_experts":1,"first_k_dense_replace":1,
"use_qk_norm":false,"num_nextn_predict_layers":1,"n_group":1,"topk_group":1,
"routed_scaling_factor":2.5,"partial_rotary_factor":0.5})"},
    {"gemma-2-9b", 9'241'705'984,
     R"({"architectures":["Gemma2ForCausalLM"],"model_type":"gemma2",
"hidden_act":"gelu_pytorch_tanh","hidden_size":3584,"intermediate_size":14336,
"num_hidden_layers":42,"num_attention_heads":16,"num_key_value_heads":8,
"vocab_size":256000,"max_position_embeddings":8192,"head_dim":256,
"hidden_activation":"gelu_pytorch_tanh","sliding_window":4096,
"attn_logit_softcapping":50.0,"final_logit_softcapping":30.0,
"query_pre_attn_scalar":256})"},
    {"gemma-3-27b-pt", 27'009'346'304,
     R"({"architectures":["Gemma3ForConditionalGeneration"],"model_type":"gemma3",
"text_config":{"hidden_size":5376,"intermediate_size":21504,"model_type":"gemma3_text",
"num_attention_heads":32,"num_hidden_layers":62,"num_key_value_heads":16,
"rope_scaling":{"factor":8.0,"rope_type":"linear"},"sliding_window":1024,
"head_dim":128},"vision_config":{"hidden_size":1152},"mm_tokens_per_image":256})"},
    {"phi-4", 14'659'507'200,
     R"({"architectures":["Phi3ForCausalLM"],"model_type":"phi3","hidden_act":"silu",
"hidden_size":5120,"intermediate_size":17920,"num_hidden_layers":40,
"num_attention_heads":40,"num_key_value_heads":10,"vocab_size":100352,
"tie_word_embeddings":false,"max_position_embeddings":16384,"embd_pdrop":0.0,
"resid_pdrop":0.0,"attention_dropout":0.0,"sliding_window":null,
"original_max_position_embeddings":16384})"},
    {"gpt2", 124'439'808,
     R"({"activation_function":"gelu_new","architectures":["GPT2LMHeadModel"],"attn_pdrop":0.1,
"embd_pdrop":0.1,"resid_pdrop":0.1,"initializer_range":0.02,"layer_norm_epsilon":1e-05,
"model_type":"gpt2","n_ctx":1024,"n_embd":768,"n_head":12,"n_layer":12,
"n_positions":1024,"summary_type":"cls_index","vocab_size":50257})"},
    {"opt-6.7b", 6'658'473'984,
     R"({"activation_function":"relu","architectures":["OPTForCausalLM"],"model_type":"opt",
"dropout":0.1,"do_layer_norm_before":true,"ffn_dim":16384,"hidden_size":4096,
"max_position_embeddings":2048,"num_attention_heads":32,"num_hidden_layers":32,
"vocab_size":50272,"word_embed_proj_dim":4096})"},
    {"OLMo-2-7B", 7'298'617'344,
     R"({"architectures":["Olmo2ForCausalLM"],"model_type":"olmo2","hidden_act":"silu",
"hidden_size":4096,"intermediate_size":11008,"num_hidden_layers":32,
"num_attention_heads":32,"num_key_value_heads":32,"vocab_size":100352,
"tie_word_embeddings":false,"max_position_embeddings":131072,"attention_bias":false})"},
    {"OLMoE-1B-7B", 6'919'161'856,
     R"({"architectures":["OlmoeForCausalLM"],"model_type":"olmoe","hidden_act":"silu",
"hidden_size":2048,"intermediate_size":1024,"num_hidden_layers":16,
"num_attention_heads":16,"num_key_value_heads":16,"vocab_size":50304,
"tie_word_embeddings":false,"max_position_embeddings":131072,"num_experts":64,
"num_experts_per_tok":8,"clip_qkv":null})"},
    {"Seed-OSS-36B", 36'151'104'512,
     R"({"architectures":["SeedOssForCausalLM"],"model_type":"seed_oss","hidden_act":"silu",
"hidden_size":5120,"intermediate_size":27648,"num_hidden_layers":64,
"num_attention_heads":80,"num_key_value_heads":8,"vocab_size":155136,
"tie_word_embeddings":false,"max_position_embeddings":131072,"attention_bias":true,
"attention_out_bias":false,"head_dim":128,"mlp_bias":false})"},
    {"SmolLM3-3B", 3'075'098'624,
     R"({"architectures":["SmolLM3ForCausalLM"],"model_type":"smollm3","hidden_act":"silu",
"hidden_size":2048,"intermediate_size":11008,"num_hidden_layers":36,
"num_attention_heads":16,"num_key_value_heads":4,"vocab_size":128256,
"tie_word_embeddings":true,"max_position_embeddings":131072,"no_rope_layers":[1],
"no_rope_layer_interval":4})"},
    {"granite-3.1-8b", 8'170'848'256,
     R"({"architectures":["GraniteForCausalLM"],"model_type":"granite","hidden_act":"silu",
"hidden_size":4096,"intermediate_size":12800,"num_hidden_layers":40,
"num_attention_heads":32,"num_key_value_heads":8,"vocab_size":49155,
"tie_word_embeddings":true,"max_position_embeddings":131072,
"attention_multiplier":0.0078125,"embedding_multiplier":12.0,"logits_scaling":16.0,
"residual_multiplier":0.22})"},
};

std::string TextOf(std::string_view name) {
  for (const Published& model : kPublished) {
    if (model.name == name) {
      return model.text;
    }
  }
  ADD_FAILURE() << name;
  return {};
}

// The file with further keys: of one given twice the last counts.
std::string With(std::string_view name, const std::string& more) {
  return TextOf(name).insert(TextOf(name).rfind('}'), "," + more);
}

std::string FaultOf(const std::string& text) {
  const Result<ModelPreset> preset = ParseModel(text, "m/config.json");
  EXPECT_EQ(preset.status().code(), StatusCode::kBadFile) << text;
  return preset.ok() ? "" : preset.status().message();
}

TEST(ModelConfig, published_files_have_the_published_number_of_parameters) {
  for (const Published& published : kPublished) {
    const Result<ModelPreset> preset =
        ParseModel(published.text, "x/" + std::string(published.name) + "/config.json");
    ASSERT_TRUE(preset.ok()) << published.name << preset.status().message();
    EXPECT_EQ(preset->Parameters(), published.parameters) << published.name;
    EXPECT_EQ(preset->model.name, published.name);
  }
}

TEST(ModelConfig, is_the_model_that_a_preset_describes) {
  for (const auto& [file, name] :
       {std::pair("Llama-3.1-8B", "llama3-8b"), std::pair("DeepSeek-V3", "deepseek-v3"),
        std::pair("Mixtral-8x7B", "mixtral-8x7b"), std::pair("Qwen3-30B-A3B", "qwen3-30b-a3b"),
        std::pair("gpt-oss-20b", "gpt-oss-20b"), std::pair("Kimi-K2-Base", "kimi-k2"),
        std::pair("Nemotron-4-340B", "nemotron4-340b"), std::pair("GLM-4.5", "glm4.5"),
        std::pair("Llama-4-Maverick-17B-128E", "llama4-maverick"),
        std::pair("gemma-3-27b-pt", "gemma3-27b"), std::pair("phi-4", "phi4")}) {
    graph::ModelSpec expected = LoadModel(name)->model;
    graph::ModelSpec model = ParseModel(TextOf(file), "x")->model;
    for (graph::ModelSpec* spec : {&expected, &model}) {
      spec->name = spec->source = "";
      spec->seq_len = 0;
      spec->head_dim = spec->HeadDim();
    }
    EXPECT_EQ(model, expected) << file;
  }
}

TEST(ModelConfig, says_what_it_assumes) {
  const Result<ModelPreset> llama = ParseModel(TextOf("Llama-3.1-8B"), "x");
  EXPECT_THAT(
      llama->assumptions,
      ElementsAre("8,030,261,248 parameters; where not given, sequences of 4,096 of at most "
                  "131,072 tokens and batches of 1,024 sequences: config.json states "
                  "neither"));
  const Result<ModelPreset> gemma = ParseModel(TextOf("gemma-3-27b-pt"), "x");
  for (const char* part :
       {"52 of 62 layers attend to a window of 1,024 tokens: taken to be every second layer",
        "norms of queries and keys, norms after attention and feed-forward, 682,496 of these",
        "transformers' default where config.json is silent: vocab_size 262208",
        "the text model of gemma3: nothing for images or sound"}) {
    EXPECT_THAT(gemma->assumptions, Contains(HasSubstr(part)));
  }
  const Result<ModelPreset> llama4 = ParseModel(TextOf("Llama-4-Maverick-17B-128E"), "x");
  EXPECT_THAT(llama4->assumptions,
              Contains(HasSubstr("24 of 48 layers are dense: the first ones")));
  EXPECT_THAT(llama4->assumptions, Contains(HasSubstr("not in chunks of 8,192")));
  const Result<ModelPreset> mistral = ParseModel(TextOf("Mistral-7B-v0.1"), "x");
  EXPECT_EQ(mistral->model.sliding_window, 0);
  EXPECT_THAT(mistral->assumptions, Contains(HasSubstr("longer sequences only")));
}

TEST(ModelConfig, names_keys_that_it_does_not_know_unless_they_are_off) {
  const auto unknown = [](const std::string& more) {
    return ParseModel(With("Qwen3-8B", more), "x")->unknown_keys;
  };
  EXPECT_THAT(unknown("\"bos_token_id\": 1, \"rope_theta\": 1e6, \"torch_dtype\": \"bfloat16\""),
              IsEmpty());
  EXPECT_THAT(unknown("\"a\": null, \"b\": false, \"c\": 0.0, \"d\": [], \"e\": \"\""), IsEmpty());
  EXPECT_THAT(unknown("\"mup\": true, \"attention_dropout\": 0.1, \"clip\\n\": [1]"),
              ElementsAre("attention_dropout", "clip-", "mup"));
  EXPECT_EQ(ListOf({"a", "b"}), "a, b");
  EXPECT_THAT(ListOf(std::vector<std::string>(20, "a")), HasSubstr("a and 8 more"));
}

TEST(ModelConfig, layers_that_are_listed_count) {
  const std::string window =
      "\"use_sliding_window\": true, \"sliding_window\": 512, \"max_window_layers\": 0";
  const std::string one = "\"num_hidden_layers\": 1, \"layer_types\": ";
  EXPECT_EQ(ParseModel(With("Qwen3-8B", window), "x")->model.sliding_window, 512);
  EXPECT_EQ(ParseModel(With("Qwen3-8B", window + ", " + one + "[\"full_attention\"]"), "x")
                ->model.sliding_window,
            0);
  EXPECT_THAT(FaultOf(With("Qwen3-8B", one + "[\"linear_attention\"]")),
              HasSubstr("layer_types has 'linear_attention', which is not described"));
  EXPECT_THAT(FaultOf(With("Qwen3-8B", "\"layer_types\": [\"full_attention\"]")),
              HasSubstr("layer_types has 1 entries for 36 layers"));
  const Result<ModelPreset> dense =
      ParseModel(With("Qwen3-30B-A3B", "\"mlp_only_layers\": [0, 1, 1]"), "x");
  EXPECT_EQ(dense->model.moe.dense_layers, 2);
  EXPECT_EQ(dense->model.ffn, 6144);
}

TEST(ModelConfig, an_unknown_architecture_is_refused_unless_its_class_is_known) {
  const std::string text = With("Qwen3-8B", "\"model_type\": \"mamba2\"");
  EXPECT_EQ(ParseModel(text, "x")->model.heads, 32);
  const std::string other =
      With("Qwen3-8B", "\"model_type\": \"mamba2\", \"architectures\": [\"Mamba2ForCausalLM\"]");
  EXPECT_THAT(FaultOf(other), HasSubstr("m/config.json: model_type 'mamba2' is not known"));
  EXPECT_THAT(FaultOf(other), HasSubstr("known are deepseek_v2, deepseek_v3, gemma"));
  EXPECT_THAT(FaultOf("{}"), HasSubstr("model_type '' is not known"));
}

TEST(ModelConfig, numbers_that_no_model_has_are_refused_by_key) {
  for (const char* number :
       {"-1", "0", "4096.5", "1e30", "99999999999999999999", "\"32\"", "[32]"}) {
    EXPECT_THAT(FaultOf(With("Qwen3-8B", std::string("\"num_hidden_layers\": ") + number)),
                HasSubstr("m/config.json: num_hidden_layers is "))
        << number;
  }
  EXPECT_THAT(FaultOf(With("Qwen3-8B", "\"hidden_size\": null")),
              HasSubstr("hidden_size is missing"));
  EXPECT_THAT(FaultOf(With("Qwen3-8B", "\"hidden_size\": NaN")), HasSubstr("parse error at line"));
  EXPECT_THAT(FaultOf(With("Qwen3-8B", "\"attention_bias\": 1")), HasSubstr("not true or false"));
  EXPECT_THAT(FaultOf(With("Qwen3-8B", "\"num_key_value_heads\": 7")), HasSubstr("must divide"));
  EXPECT_THAT(FaultOf(With("Qwen3-30B-A3B", "\"num_experts_per_tok\": 129")),
              HasSubstr("topk (129)"));
  EXPECT_THAT(FaultOf(With("Qwen3-30B-A3B", "\"mlp_only_layers\": [\"a\"]")),
              HasSubstr("mlp_only_layers is [\"a\"], not a list of whole numbers"));
  EXPECT_THAT(FaultOf(With("DeepSeek-V3", "\"n_shared_experts\": 2000000")),
              HasSubstr("n_shared_experts"));
  const std::string deep = std::string(100'000, '[') + std::string(100'000, ']');
  EXPECT_THAT(FaultOf(With("Qwen3-8B", "\"a\": " + deep)), HasSubstr("nests deeper than 16"));
  EXPECT_THAT(FaultOf("{\"text_config\": 3}"), HasSubstr("text_config is not an object"));
}

TEST(ModelConfig, a_folder_and_a_cache_of_the_hub_give_the_name) {
  const ScratchFolder folder;
  const std::filesystem::path hub = folder / "models--Qwen--Qwen3-8B/snapshots/1234";
  std::filesystem::create_directories(hub);
  std::ofstream(hub / "config.json") << TextOf("Qwen3-8B");
  InputHashes read;
  EXPECT_EQ(LoadModel(hub.string(), &read)->model.name, "Qwen3-8B");
  EXPECT_TRUE(read.contains((hub / "config.json").string()));
  std::filesystem::copy(hub / "config.json", folder / "my model.json");
  EXPECT_EQ(LoadModel(folder / "my model.json")->model.name, "my-model");
  EXPECT_THAT(LoadModel(hub.parent_path().string()).status().message(), HasSubstr("config.json"));
  std::ofstream(folder / "large.json") << std::string((1 << 20) + 1, ' ');
  EXPECT_THAT(LoadModel(folder / "large.json").status().message(), HasSubstr("1 MiB"));
}

// Whatever a file contains, it is a model or is refused, and never both.
void CheckDamaged(const std::string& text) {
  const Result<ModelPreset> preset = ParseModel(text, "x");
  if (preset.ok()) {
    RC_ASSERT(preset->Parameters() >= 1);
    RC_ASSERT(preset->uncounted_parameters >= 0);
    RC_ASSERT(!preset->assumptions.empty());
  } else {
    RC_ASSERT(preset.status().code() == StatusCode::kBadFile);
    RC_ASSERT(!preset.status().message().empty());
  }
}

RC_GTEST_PROP(ModelConfig, damage_is_refused_or_harmless, ()) {
  std::string text = kPublished[*rc::gen::inRange<size_t>(0, std::size(kPublished))].text;
  for (int i = *rc::gen::inRange(1, 8); i > 0; --i) {
    text[*rc::gen::inRange<size_t>(1, text.size())] = *rc::gen::arbitrary<char>();
  }
  CheckDamaged(text);
}

RC_GTEST_PROP(ModelConfig, any_value_of_any_key_is_refused_or_harmless, ()) {
  std::string text = kPublished[*rc::gen::inRange<size_t>(0, std::size(kPublished))].text;
  std::vector<size_t> values;
  for (size_t at = text.find("\":"); at != text.npos; at = text.find("\":", at + 1)) {
    values.push_back(at + 2);
  }
  const size_t at = *rc::gen::elementOf(values);
  const size_t end = text.find_first_of(",}", at);
  text.replace(at, end - at,
               *rc::gen::element<std::string>(
                   "null", "true", "0", "1", "-7", "2097152", "1073741824", "9223372036854775807",
                   "1e308", "\"silu\"", "[1,2]", "[\"sliding_attention\"]", "{}"));
  CheckDamaged(text);
}

}  // namespace
}  // namespace prism::launch
