#include "launch/inputs/model_config.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <numeric>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "graph/base/units.h"
#include "launch/inputs/json_reader.h"
#include "launch/inputs/model_architectures.h"

namespace prism::launch {
namespace {

using graph::BlockKind;

constexpr int64_t kSequence = 4096;

// A stranger's text as part of a message or name.
std::string Clean(std::string text) {
  constexpr size_t kLongest = 60;
  std::ranges::replace_if(
      text,
      [](char c) {
        constexpr std::string_view kPlainMarks = "-._";
        return std::isalnum(static_cast<unsigned char>(c)) == 0 &&
               kPlainMarks.find(c) == std::string_view::npos;
      },
      '-');
  return text.substr(0, kLongest);
}

// The folder's name; in the cache of Hugging Face's hub (models--ORGANISATION--NAME/snapshots/HASH)
// that of the model.
std::string NameOf(const std::string& where, std::string_view otherwise) {
  std::error_code error;
  std::filesystem::path file = std::filesystem::absolute(where, error).lexically_normal();
  if (file.filename() == "config.json") {
    file = file.parent_path();
  }
  if (file.parent_path().filename() == "snapshots") {
    file = file.parent_path().parent_path();
  }
  std::string name = file.extension() == ".json" ? file.stem().string() : file.filename().string();
  if (name.starts_with("models--")) {
    name = name.substr(name.rfind("--") + 2);
  }
  name = Clean(std::move(name));
  return name.find_first_not_of('.') == std::string::npos ? std::string(otherwise) : name;
}

// Reads one object of keys whose architecture is known.
class ConfigModel {
 public:
  ConfigModel(const Architecture& architecture, JsonReader reader)
      : architecture_(architecture), reader_(std::move(reader)) {
    model_.block = architecture.block;
    model_.source = fmt::format("a config.json of {}", architecture.model);
  }

  Result<ModelPreset> Read() {
    ReadShape();
    PRISM_RETURN_IF_ERROR(reader_.status());
    ReadAttention();
    ReadFeedForward();
    PRISM_RETURN_IF_ERROR(reader_.status());
    if (const std::string fault = ModelFault(model_, {}); !fault.empty()) {
      return BadFile(fmt::format("{}: {}", reader_.where(), fault));
    }
    CountVectors();
    ReadWindow();
    ReadActivation();
    PRISM_RETURN_IF_ERROR(reader_.status());
    preset_.layout.global_batch_size = kBatch;
    preset_.layout.ep =
        static_cast<int32_t>(std::gcd(kUsualNode, std::max<int64_t>(model_.moe.experts, 1)));
    preset_.description = fmt::format("{} of transformers", architecture_.model);
    for (const std::string& key : reader_.Others()) {
      if (!IsIgnoredKey(key)) {
        preset_.unknown_keys.push_back(Clean(key));
      }
    }
    preset_.model = model_;
    SayWhatIsAssumed();
    return preset_;
  }

 private:
  static constexpr int64_t kBatch = 1024;
  static constexpr int64_t kUsualNode = 8;

  [[nodiscard]] bool Is(Trait trait) const { return (architecture_.traits & trait) != 0; }

  void Assume(std::string line) { preset_.assumptions.push_back(std::move(line)); }

  // The first of the keys that is there, else transformers' default, else `otherwise` (0:
  // required).
  int64_t Integer(const std::vector<std::string>& keys, int64_t highest, int64_t otherwise = 0) {
    for (const std::string& key : keys) {
      if (reader_.Has(key)) {
        return reader_.Integer(key, 1, highest);
      }
    }
    for (const std::string& key : keys) {
      if (const auto value = DefaultOf(architecture_, key)) {
        defaults_.push_back(fmt::format("{} {}", key, *value));
        return *value;
      }
    }
    return otherwise > 0 ? otherwise : reader_.Integer(keys.front(), 1, highest);
  }

  int64_t CountOr0(const std::string& key, int64_t highest) {
    return reader_.Has(key) ? reader_.Integer(key, 0, highest) : 0;
  }

  void ReadShape() {
    model_.layers = Integer({"num_hidden_layers", "n_layer"}, kMaxLayers);
    model_.hidden = Integer({"hidden_size", "n_embd"}, kMaxWidth);
    model_.vocab = Integer({"vocab_size"}, kMaxLength);
    positions_ = Integer({"max_position_embeddings", "n_positions"}, kMaxLength);
    CountOr0("n_ctx", kMaxLength);
    const bool learned = model_.block == BlockKind::kGpt;
    model_.seq_len = learned ? positions_ : std::min(positions_, kSequence);
    model_.tied_embeddings = reader_.BoolOr("tie_word_embeddings", Is(kTied));
    model_.mtp_layers = CountOr0("num_nextn_predict_layers", kMaxLayers);
    if (reader_.Has("word_embed_proj_dim") &&
        reader_.Integer("word_embed_proj_dim", 1, kMaxWidth) != model_.hidden) {
      reader_.Fail("word_embed_proj_dim", "differs from hidden_size, which is not described");
    }
    if (!reader_.BoolOr("do_layer_norm_before", true)) {
      reader_.Fail("do_layer_norm_before", "is false: norms after the layers are not described");
    }
    for (const char* on : {"_remove_final_layer_norm", "layer_norm_elementwise_affine",
                           "enable_bias", "reorder_and_upcast_attn"}) {
      reader_.BoolOr(on, true);
    }
  }

  void ReadAttention() {
    model_.heads = Integer({"num_attention_heads", "n_head"}, kMaxWidth);
    if (!reader_.Has("kv_lora_rank")) {
      if (model_.block != BlockKind::kGpt && !reader_.Has("num_key_value_heads")) {
        defaults_.emplace_back("num_key_value_heads as num_attention_heads");
      }
      model_.kv_heads = Integer({"num_key_value_heads"}, kMaxWidth, model_.heads);
      const int64_t usual = model_.hidden % model_.heads == 0 ? model_.hidden / model_.heads : 0;
      model_.head_dim = Integer({"head_dim"}, kMaxWidth, usual);
      model_.head_dim = model_.head_dim == usual ? 0 : model_.head_dim;
      return;
    }
    CountOr0("num_key_value_heads", kMaxWidth);
    CountOr0("head_dim", kMaxWidth);
    CountOr0("qk_head_dim", kMaxWidth);
    model_.kv_heads = model_.heads;
    model_.head_dim = Integer({"qk_nope_head_dim"}, kMaxWidth);
    model_.latent.kv_rank = Integer({"kv_lora_rank"}, kMaxWidth);
    model_.latent.q_rank = CountOr0("q_lora_rank", kMaxWidth);
    model_.latent.rope_dim = Integer({"qk_rope_head_dim"}, kMaxWidth);
    model_.latent.value_dim = Integer({"v_head_dim"}, kMaxWidth);
  }

  void ReadFeedForward() {
    int64_t ffn = Integer({"intermediate_size", "ffn_dim", "n_inner"}, kMaxWidth,
                          architecture_.type == "gpt2" ? 4 * model_.hidden : 0);
    graph::MoeShape& moe = model_.moe;
    for (const char* key : {"num_local_experts", "num_experts", "n_routed_experts"}) {
      moe.experts = std::max(moe.experts, CountOr0(key, kMaxWidth));
    }
    if (moe.experts == 0) {
      model_.ffn = ffn;
      return;
    }
    moe.topk = Integer({"num_experts_per_tok", "experts_per_token"}, kMaxWidth);
    CountOr0("experts_per_token", kMaxWidth);
    moe.expert_ffn = Integer({"moe_intermediate_size"}, kMaxWidth, ffn);
    ffn = Integer({"intermediate_size_mlp"}, kMaxWidth, ffn);
    moe.biased = Is(kBiasedExperts);
    const int64_t shared = CountOr0("n_shared_experts", kMaxWidth / moe.expert_ffn);
    moe.shared_expert_ffn = Is(kSharedIsExpert)
                                ? moe.expert_ffn
                                : std::max(CountOr0("shared_expert_intermediate_size", kMaxWidth),
                                           shared * moe.expert_ffn);
    ReadDenseLayers();
    model_.ffn = moe.dense_layers > 0 ? ffn : 0;
  }

  std::set<int64_t> LayersIn(const std::string& key) {
    const std::vector<int64_t> layers = reader_.IntegersOr(key);
    return {layers.begin(), layers.end()};
  }

  // The description has dense layers first; elsewhere they are only counted.
  void ReadDenseLayers() {
    const int64_t first = CountOr0("first_k_dense_replace", kMaxLayers);
    const bool shifted =
        reader_.Has("interleave_moe_layer_step") || reader_.Has("decoder_sparse_step");
    const int64_t step = Integer(
        {"interleave_moe_layer_step", "decoder_sparse_step", "moe_layer_freq"}, kMaxLayers, 1);
    const std::set<int64_t> dense = LayersIn("mlp_only_layers");
    const std::set<int64_t> experts = LayersIn("moe_layers");
    bool in_front = true;
    for (int64_t layer = 0; layer < model_.layers; ++layer) {
      const bool by_step = (layer + (shifted ? 1 : 0)) % step == 0;
      const bool has_experts = experts.empty() ? layer >= first && by_step && !dense.contains(layer)
                                               : experts.contains(layer);
      in_front = in_front && (has_experts || model_.moe.dense_layers == layer);
      model_.moe.dense_layers += has_experts ? 0 : 1;
    }
    if (!in_front) {
      Assume(
          fmt::format("{} of {} layers are dense: the first ones, not those between layers with "
                      "experts",
                      model_.moe.dense_layers, model_.layers));
    }
  }

  // Parameters that graph::ModelParameters leaves out; those of layers are not described either.
  void LeaveOut(std::string what, int64_t of_a_layer, int64_t layers) {
    if (of_a_layer > 0 && layers > 0) {
      left_out_.push_back(std::move(what));
      left_out_count_ += of_a_layer * layers;
    }
  }

  void CountVectors() {
    const graph::MoeShape& moe = model_.moe;
    const int64_t head = model_.HeadDim();
    const int64_t keys = model_.kv_heads * head;
    const int64_t with_experts = moe.experts > 0 ? model_.layers - moe.dense_layers : 0;
    if (model_.block != BlockKind::kGpt) {
      CountBiases(model_.heads * head + 2 * keys);
    }
    const bool by_key = reader_.BoolOr("use_qk_norm", false);
    if (by_key && !Is(kNormsByKey)) {
      Assume("no time for norms of queries and keys, which have no weights");
    }
    const bool norms = Is(kNormsByKey) ? by_key : Is(kHeadNorms);
    LeaveOut("norms of queries and keys", norms ? 2 * head : 0, model_.layers);
    LeaveOut("norms of queries and keys", Is(kWideNorms) ? model_.heads * head + keys : 0,
             model_.layers);
    LeaveOut("norms after attention and feed-forward", Is(kFourNorms) ? 2 * model_.hidden : 0,
             model_.layers);
    LeaveOut("attention sinks", Is(kSinks) ? model_.heads : 0, model_.layers);
    const bool router_biases = moe.biased || Is(kCorrectedRouters);
    LeaveOut("biases of routers", router_biases ? moe.experts : 0, with_experts);
    LeaveOut("gates of shared experts", Is(kSharedGate) ? model_.hidden : 0, with_experts);
    LeaveOut("two positions", Is(kTwoMorePositions) ? 2 * model_.hidden : 0, 1);
    preset_.uncounted_parameters = left_out_count_;
    // These are described.
    const graph::LatentAttention& latent = model_.latent;
    preset_.uncounted_parameters += model_.layers * (latent.q_rank + latent.kv_rank);
    if (moe.biased) {
      preset_.uncounted_parameters +=
          with_experts * moe.experts * (2 * moe.expert_ffn + model_.hidden);
    }
  }

  void CountBiases(int64_t projections) {
    const bool attention = reader_.BoolOr("attention_bias", Is(kBiased));
    const bool query = reader_.BoolOr("qkv_bias", attention);
    const bool output = reader_.BoolOr("attention_out_bias", attention && Is(kWholeBias));
    const bool dense = reader_.BoolOr("mlp_bias", false);
    LeaveOut("biases of queries, keys and values", query ? projections : 0, model_.layers);
    LeaveOut("biases of attention's output", output ? model_.hidden : 0, model_.layers);
    LeaveOut("biases of feed-forwards",
             dense ? (model_.FfnMatrices() - 1) * model_.ffn + model_.hidden : 0, model_.layers);
    if (attention && model_.latent.kv_rank > 0) {
      reader_.Fail("attention_bias", "is true: biases of latent attention are not described");
    }
  }

  // Layers whose attention is limited to a window.
  int64_t WindowedLayers() {
    const std::vector<std::string> types = reader_.TextsOr("layer_types");
    for (const std::string& type : types) {
      if (type != "full_attention" && type != "sliding_attention" && type != "chunked_attention") {
        reader_.Fail("layer_types", fmt::format("has '{}', which is not described", Clean(type)));
      }
    }
    if (!types.empty() && std::ssize(types) != model_.layers) {
      reader_.Fail("layer_types",
                   fmt::format("has {} entries for {} layers", types.size(), model_.layers));
    }
    const int64_t pattern = std::max(CountOr0("sliding_window_pattern", kMaxLayers),
                                     CountOr0("_sliding_window_pattern", kMaxLayers));
    const bool usual = Is(kWindowed) || Is(kEverySecond) || Is(kFiveOfSix);
    const bool used = reader_.BoolOr("use_sliding_window", usual);
    const int64_t whole = std::min(CountOr0("max_window_layers", kMaxLayers), model_.layers);
    if (!types.empty()) {
      return std::ranges::count(types, "sliding_attention");
    }
    if (pattern > 0) {
      return model_.layers - model_.layers / pattern;
    }
    if (!used) {
      return 0;
    }
    constexpr int64_t kSix = 6;
    const int64_t share = Is(kEverySecond) ? 2 : Is(kFiveOfSix) ? kSix : 0;
    return model_.layers - (share > 0 ? model_.layers / share : whole);
  }

  void ReadWindow() {
    const int64_t windowed = WindowedLayers();
    const int64_t window = CountOr0("sliding_window", kMaxLength);
    const int64_t chunk = CountOr0("attention_chunk_size", kMaxLength);
    if (chunk > 0) {
      Assume(fmt::format("attention to all tokens, not in chunks of {}", FormatCount(chunk)));
    }
    if (window == 0 || windowed == 0) {
      return;
    }
    const std::string layers = fmt::format("{} of {} layers attend to a window of {} tokens",
                                           windowed, model_.layers, FormatCount(window));
    if (window >= model_.seq_len) {
      Assume(layers + ", which is left out: it matters to longer sequences only");
      return;
    }
    model_.sliding_window = window;
    if (std::abs(2 * windowed - model_.layers) > 1) {
      Assume(layers + ": taken to be every second layer");
    }
  }

  void ReadActivation() {
    const std::string given =
        reader_.TextOr("hidden_activation",
                       reader_.TextOr("hidden_act", reader_.TextOr("activation_function", "")));
    const std::string usual = model_.block == BlockKind::kLlama ? "silu"
                              : model_.block == BlockKind::kGpt ? "gelu"
                                                                : "relu2";
    const std::string name = given == "swish" ? "silu" : given;
    const bool same = name.empty() || name == usual || (usual == "gelu" && name.starts_with(usual));
    if (!same) {
      Assume(fmt::format("{} takes as long as {}", Clean(given), usual));
    }
    for (const char* cap : {"attn_logit_softcapping", "final_logit_softcapping"}) {
      if (reader_.Has(cap)) {
        Assume(fmt::format("no time for {}", cap));
      }
    }
  }

  void SayWhatIsAssumed() {
    preset_.assumptions.insert(
        preset_.assumptions.begin(),
        fmt::format("{} parameters; where not given, sequences of {} of at most {} tokens and "
                    "batches of {} sequences: config.json states neither",
                    FormatCount(preset_.Parameters()), FormatCount(model_.seq_len),
                    FormatCount(positions_), FormatCount(kBatch)));
    if (!left_out_.empty()) {
      Assume(fmt::format("no time and no memory for {}, {} of these parameters",
                         fmt::join(left_out_, ", "), FormatCount(left_out_count_)));
    }
    if (!defaults_.empty()) {
      Assume(fmt::format("transformers' default where config.json is silent: {}",
                         fmt::join(defaults_, ", ")));
    }
    if (model_.mtp_layers > 0) {
      Assume(
          fmt::format("trained with {} of multi-token prediction, which the parameters leave out",
                      FormatCounted(model_.mtp_layers, "layer")));
    }
    if (!preset_.unknown_keys.empty()) {
      Assume(fmt::format("keys of config.json that are not known change nothing: {}",
                         ListOf(preset_.unknown_keys)));
    }
  }

  const Architecture& architecture_;
  JsonReader reader_;
  graph::ModelSpec model_;
  ModelPreset preset_;
  int64_t positions_ = 0;
  int64_t left_out_count_ = 0;
  std::vector<std::string> left_out_;
  std::vector<std::string> defaults_;
};

Result<const Architecture*> ReadArchitecture(JsonReader* reader) {
  const std::string type = reader->TextOr("model_type", "");
  const std::vector<std::string> models = reader->TextsOr("architectures");
  PRISM_RETURN_IF_ERROR(reader->status());
  const Architecture* found = FindArchitecture(type, models.empty() ? "" : models.front());
  if (found == nullptr) {
    return BadFile(fmt::format(
        "{}: model_type '{}' is not known, and what its layers hold would be guessed; known are {}",
        reader->where(), Clean(type), fmt::join(ArchitectureTypes(), ", ")));
  }
  return found;
}

}  // namespace

std::string ListOf(const std::vector<std::string>& keys) {
  constexpr size_t kShown = 12;
  const size_t shown = std::min(keys.size(), kShown);
  const std::vector<std::string> first(keys.begin(), keys.begin() + static_cast<ptrdiff_t>(shown));
  const std::string more =
      keys.size() > shown ? fmt::format(" and {} more", keys.size() - shown) : "";
  return fmt::format("{}{}", fmt::join(first, ", "), more);
}

bool IsModelConfig(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t\r\n");
  return first != std::string_view::npos && text[first] == '{';
}

Result<ModelPreset> ParseModelConfig(std::string_view text, const std::string& where) {
  PRISM_ASSIGN_OR_RETURN(JsonReader root, JsonReader::Parse(text, where));
  const bool nested = root.Has("text_config") && !root.Has("hidden_size");
  const std::string outer = root.TextOr("model_type", "");
  JsonReader reader = nested ? root.Object("text_config") : root;
  PRISM_ASSIGN_OR_RETURN(const Architecture* architecture, ReadArchitecture(&reader));
  PRISM_ASSIGN_OR_RETURN(ModelPreset preset, ConfigModel(*architecture, std::move(reader)).Read());
  preset.model.name = NameOf(where, architecture->type);
  if (nested) {
    preset.assumptions.push_back(
        fmt::format("the text model of {}: nothing for images or sound", Clean(outer)));
  }
  return preset;
}

}  // namespace prism::launch
