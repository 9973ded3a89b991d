#include "launch/inputs/model_preset.h"

#include <algorithm>
#include <string>

#include <fmt/format.h>

#include "graph/job/names.h"
#include "graph/validate/limits.h"
#include "launch/inputs/model_config.h"
#include "launch/inputs/toml_reader.h"

namespace prism::launch {
namespace {

void ReadLayout(TomlReader reader, LayoutPreset* layout) {
  if (reader.Has("tp")) {
    layout->tp = static_cast<int32_t>(reader.Integer("tp", 1, graph::kMaxRanks));
  }
  if (reader.Has("pp")) {
    layout->pp = static_cast<int32_t>(reader.Integer("pp", 1, graph::kMaxRanks));
  }
  layout->vpp = static_cast<int32_t>(reader.IntegerOr("vpp", 1, 1024, 1));
  layout->ep = static_cast<int32_t>(reader.IntegerOr("ep", 1, graph::kMaxRanks, 1));
  layout->micro_batch_size = reader.IntegerOr("micro_batch_size", 1, 1 << 20, 1);
  layout->global_batch_size = reader.Integer("global_batch_size", 1, int64_t{1} << 30);
  if (reader.Has("recompute")) {
    layout->recompute = reader.Choice("recompute", graph::kRecomputeNames);
  }
  layout->zero = static_cast<int32_t>(reader.IntegerOr("zero", 0, 3, 1));
  reader.RefuseOthers();
}

void ReadExperts(TomlReader reader, graph::MoeShape* moe) {
  moe->experts = reader.Integer("experts", 1, kMaxWidth);
  moe->topk = reader.Integer("topk", 1, kMaxWidth);
  moe->expert_ffn = reader.Integer("expert_ffn", 1, kMaxWidth);
  moe->shared_expert_ffn = reader.IntegerOr("shared_expert_ffn", 0, kMaxWidth, 0);
  moe->dense_layers = reader.IntegerOr("dense_layers", 0, kMaxLayers, 0);
  moe->biased = reader.BoolOr("biased", false);
  reader.RefuseOthers();
}

void ReadLatentAttention(TomlReader reader, graph::LatentAttention* latent) {
  latent->q_rank = reader.IntegerOr("q_rank", 0, kMaxWidth, 0);
  latent->kv_rank = reader.Integer("kv_rank", 1, kMaxWidth);
  latent->rope_dim = reader.Integer("rope_dim", 1, kMaxWidth);
  latent->value_dim = reader.Integer("value_dim", 1, kMaxWidth);
  reader.RefuseOthers();
}

void ReadAttention(TomlReader* reader, graph::ModelSpec* model) {
  model->heads = reader->Integer("heads", 1, kMaxWidth);
  model->kv_heads = reader->IntegerOr("kv_heads", 1, kMaxWidth, model->heads);
  model->head_dim = reader->IntegerOr("head_dim", 1, kMaxWidth, 0);
  model->sliding_window = reader->IntegerOr("sliding_window", 1, kMaxLength, 0);
  if (reader->Has("latent_attention")) {
    ReadLatentAttention(reader->Table("latent_attention"), &model->latent);
  }
}

void ReadFeedForward(TomlReader* reader, graph::ModelSpec* model) {
  if (reader->Has("moe")) {
    ReadExperts(reader->Table("moe"), &model->moe);
  }
  const bool has_dense_layers = model->moe.experts == 0 || model->moe.dense_layers > 0;
  if (has_dense_layers || reader->Has("ffn")) {
    model->ffn = reader->Integer("ffn", 1, kMaxWidth);
  }
}

}  // namespace

std::string ModelFault(const graph::ModelSpec& model, const LayoutPreset& layout) {
  const graph::MoeShape& moe = model.moe;
  const graph::LatentAttention& latent = model.latent;
  const int64_t head = model.HeadDim() + latent.rope_dim;
  if (model.head_dim == 0 && model.hidden % model.heads != 0) {
    return fmt::format("heads ({}) must divide hidden ({}), or head_dim must be given", model.heads,
                       model.hidden);
  }
  if (model.heads % model.kv_heads != 0) {
    return fmt::format("kv_heads ({}) must divide heads ({})", model.kv_heads, model.heads);
  }
  if (latent.kv_rank > 0 && model.kv_heads != model.heads) {
    return "with latent attention, kv_heads must equal heads";
  }
  if (head > kMaxWidth / model.heads || latent.value_dim > kMaxWidth / model.heads) {
    return fmt::format("{} heads of {} are wider than {}", model.heads,
                       std::max(head, latent.value_dim), kMaxWidth);
  }
  if (moe.topk > moe.experts) {
    return fmt::format("topk ({}) is larger than experts ({})", moe.topk, moe.experts);
  }
  if (moe.experts > 0 && moe.expert_ffn > kMaxWidth / moe.experts) {
    return fmt::format("{} experts of {} are wider than {}", moe.experts, moe.expert_ffn,
                       kMaxWidth);
  }
  if (moe.experts % layout.ep != 0) {
    return fmt::format("layout.ep ({}) must divide the experts ({})", layout.ep, moe.experts);
  }
  if (layout.ep > 1 && moe.experts == 0) {
    return "layout.ep needs a model with experts";
  }
  if (moe.dense_layers > model.layers) {
    return fmt::format("dense_layers ({}) is larger than layers ({})", moe.dense_layers,
                       model.layers);
  }
  return "";
}

Result<ModelPreset> ParseModel(std::string_view text, const std::string& where) {
  if (IsModelConfig(text)) {
    return ParseModelConfig(text, where);
  }
  PRISM_ASSIGN_OR_RETURN(TomlDocument document, TomlDocument::Parse(text, where));
  TomlReader reader = document.root();
  ModelPreset preset;
  graph::ModelSpec& model = preset.model;
  model.name = reader.Text("name");
  if (model.name == "." || model.name == ".." || model.name.find('/') != std::string::npos) {
    reader.Fail("name", fmt::format("'{}' cannot be part of the name of an output folder; use no /",
                                    model.name));
  }
  model.source = reader.Text("source");
  preset.description = reader.Text("description");
  model.block = reader.Choice("block", graph::kBlockKindNames);
  model.layers = reader.Integer("layers", 1, kMaxLayers);
  model.hidden = reader.Integer("hidden", 1, kMaxWidth);
  ReadAttention(&reader, &model);
  ReadFeedForward(&reader, &model);
  model.vocab = reader.Integer("vocab", 1, kMaxLength);
  model.seq_len = reader.Integer("seq_len", 1, kMaxLength);
  model.tied_embeddings = reader.BoolOr("tied_embeddings", true);
  model.mtp_layers = reader.IntegerOr("mtp_layers", 0, kMaxLayers, 0);
  preset.uncounted_parameters = reader.IntegerOr("uncounted_parameters", 0, kMaxLength, 0);
  preset.assumptions = reader.TextsOr("assumptions");
  if (reader.Has("layout")) {
    ReadLayout(reader.Table("layout"), &preset.layout);
  }
  reader.RefuseOthers();
  PRISM_RETURN_IF_ERROR(document.status());
  if (const std::string fault = ModelFault(model, preset.layout); !fault.empty()) {
    return BadFile(fmt::format("{}: {}", where, fault));
  }
  return preset;
}

}  // namespace prism::launch
