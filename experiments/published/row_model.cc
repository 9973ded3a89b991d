// ModelOfRow (row_job.h). Sources print part of a shape, and few print the same part: what a row
// omits is taken from other rows about the model of that name, else from its number of parameters,
// else from what the models of its family have in common. Each step is noted.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <string>

#include <fmt/format.h>

#include "graph/base/divide.h"

#include "experiments/published/row_arguments.h"
#include "experiments/published/row_job.h"

namespace prism::launch {
namespace {

constexpr EnumNames<graph::BlockKind, 3> kBlockNames = {
    {{graph::BlockKind::kGpt, "gpt"},
     {graph::BlockKind::kLlama, "llama"},
     {graph::BlockKind::kNemotron, "nemotron"}}};

// A whole number that follows `word` in the architecture, 0 if there is none: "head_dim 128".
int64_t NumberAfter(const std::string& text, const std::string& word) {
  const size_t at = text.find(word + " ");
  if (at == std::string::npos) {
    return 0;
  }
  int64_t number = 0;
  for (size_t i = at + word.size() + 1; i < text.size() && text[i] >= '0' && text[i] <= '9'; ++i) {
    number = number * 10 + (text[i] - '0');
    if (number > 1'000'000) {
      return 0;
    }
  }
  return number;
}

// What other rows of the table state for the model of that name, and how many of them do.
std::map<int64_t, int64_t> SizesElsewhere(const PublishedRow& row, std::string_view column) {
  const auto differ = [&](const PublishedRow& other, std::string_view size) {
    return !row.Text(size).empty() && !other.Text(size).empty() &&
           row.Text(size) != other.Text(size);
  };
  std::map<int64_t, int64_t> counts;
  if (row.Text("model").empty()) {
    return counts;
  }
  for (const PublishedRow& other : row.RowsOfTable()) {
    const bool alike = other.Text("model") == row.Text("model") && !differ(other, "layers") &&
                       !differ(other, "hidden") && !differ(other, "heads");
    if (const auto known = alike ? other.Integer(column) : std::nullopt) {
      ++counts[*known];
    }
  }
  return counts;
}

// A size that the row states, else the one that other rows of its table state for the model of that
// name (releases of a benchmark omit what they printed before): if they disagree, the most frequent
// one, and the time may be off by `spread`.
std::optional<int64_t> SizeOf(const PublishedRow& row,
                              std::string_view column,
                              double spread = 0.1) {
  if (const std::optional<int64_t> own = row.Integer(column)) {
    return own;
  }
  if (const std::optional<int64_t> said = ArgumentFor(row, column)) {
    return said;
  }
  const std::map<int64_t, int64_t> counts = SizesElsewhere(row, column);
  const auto most = std::ranges::max_element(
      counts, [](const auto& a, const auto& b) { return a.second < b.second; });
  if (most == counts.end()) {
    return std::nullopt;
  }
  row.Assume(fmt::format("{}: as {} of the table {} it for that model", column,
                         counts.size() == 1 ? "another row" : "most rows",
                         counts.size() == 1 ? "has" : "have"),
             counts.size() == 1 ? 0 : spread);
  return most->first;
}

// The page of a repository that a row is from: "pytorch/torchtitan benchmarks/llama3.md table 1".
std::string_view PageOf(const PublishedRow& row) {
  constexpr std::string_view kSuffix = ".md";
  const std::string_view reference = row.Text("source_ref");
  const size_t suffix = reference.find(kSuffix);
  if (suffix == std::string_view::npos) {
    return {};
  }
  const size_t begin = reference.rfind(' ', suffix) + 1;
  return reference.substr(begin, suffix + kSuffix.size() - begin);
}

// Tokens of a sequence if the row does not say: runs of one release on one page share theirs, if
// those that state it agree; else as for sizes of the model.
std::optional<int64_t> LengthOf(const PublishedRow& row) {
  constexpr double kLengthSpread = 0.5;
  std::optional<int64_t> shared = row.Integer("seq_len");
  if (shared.has_value() || PageOf(row).empty()) {
    return SizeOf(row, "seq_len", kLengthSpread);
  }
  for (const PublishedRow& other : row.RowsOfTable()) {
    const std::optional<int64_t> known = other.Integer("seq_len");
    if (!known.has_value() || PageOf(other) != PageOf(row) ||
        other.Text("framework_version") != row.Text("framework_version")) {
      continue;
    }
    if (shared.has_value() && shared != known) {
      return SizeOf(row, "seq_len", kLengthSpread);
    }
    shared = known;
  }
  if (!shared.has_value()) {
    return SizeOf(row, "seq_len", kLengthSpread);
  }
  row.Assume("seq_len: as the other runs on the page", 0.1);
  return shared;
}

// The nearest number of layers that stages share evenly, as Megatron requires of a pipeline, if it
// is within the precision of a parameter count (which is rounded and may or may not include
// embeddings).
int64_t EvenLayers(double layers, int64_t stages) {
  constexpr double kNear = 0.03;
  const int64_t even = std::llround(layers / static_cast<double>(stages)) * stages;
  const bool near = std::abs(static_cast<double>(even) - layers) <= kNear * layers;
  return std::max<int64_t>(1, near ? even : std::llround(layers));
}

// The number of layers of a model with that many parameters, everything else being known: 12 h²
// each for a GPT, else the sum of its parts.
std::optional<int64_t> LayersFromParameters(const PublishedRow& row, graph::ModelSpec model) {
  const std::optional<double> billions = row.Number("params_b");
  if (!billions.has_value()) {
    return std::nullopt;
  }
  const auto hidden = static_cast<double>(model.hidden);
  double layer = 12.0 * hidden * hidden;
  double outside = 0;
  if (model.block != graph::BlockKind::kGpt) {
    model.layers = model.moe.dense_layers;
    const auto fewer = static_cast<double>(graph::ModelParameters(model));
    ++model.layers;
    layer = static_cast<double>(graph::ModelParameters(model)) - fewer;
    outside = fewer - static_cast<double>(model.moe.dense_layers) * layer;
  }
  constexpr double kMaxLayers = 1e9;  // more than any limit
  const double layers = (*billions * 1e9 - outside) / layer;
  return EvenLayers(std::min(kMaxLayers, std::max(1.0, layers)),
                    std::max<int64_t>(1, row.Integer("pp").value_or(1)));
}

// Heads about 128 wide; their number a multiple of 16, as in large models, if that divides the
// hidden size.
int64_t UsualHeads(int64_t hidden) {
  constexpr int64_t kUsualHeadDim = 128;
  const int64_t about = std::max<int64_t>(1, hidden / kUsualHeadDim);
  for (const int64_t multiple : {16, 8, 1}) {
    int64_t best = 0;
    for (int64_t count = multiple; count <= 2 * about; count += multiple) {
      const bool nearer = best == 0 || std::abs(count - about) < std::abs(best - about);
      best = hidden % count == 0 && nearer ? count : best;
    }
    if (best > 0 && std::abs(best - about) <= about / 2) {
      return best;
    }
  }
  return 1;
}

// Heads if the row does not say: those of the run of the same source with this hidden size and the
// nearest number of parameters, within a factor of two; else the usual ones. A few wide layers that
// were run separately say nothing about the whole model.
int64_t HeadsOfRow(const PublishedRow& row, int64_t hidden) {
  if (const std::optional<int64_t> known = SizeOf(row, "heads")) {
    return std::max<int64_t>(1, *known);
  }
  std::optional<int64_t> heads;
  double nearest = 0;
  const double billions = row.Number("params_b").value_or(0);
  for (const PublishedRow& other : row.RowsOfTable()) {
    const std::optional<int64_t> known = other.Integer("heads");
    const double its_billions = other.Number("params_b").value_or(0);
    const double distance = std::abs(its_billions - billions);
    const bool alike = other.Integer("hidden") == hidden && its_billions <= 2 * billions &&
                       billions <= 2 * its_billions && other.Source() == row.Source();
    if (alike && known.has_value() && (!heads.has_value() || distance < nearest)) {
      heads = known;
      nearest = distance;
    }
  }
  if (heads.has_value()) {
    row.Assume("heads: as in the nearest run of the source with this hidden size");
    return *heads;
  }
  constexpr double kSpread = 0.05;  // a width that is not a multiple of 8 costs up to 25%
  row.Assume("heads: about 128 wide", kSpread);
  return UsualHeads(hidden);
}

// Groups of keys and values: if nothing is said, what the models of a family have in common.
int64_t KeyValueHeads(const PublishedRow& row, int64_t heads) {
  if (const std::optional<int64_t> known = SizeOf(row, "kv_heads")) {
    if (heads % *known == 0) {
      return *known;
    }
    constexpr double kSpread = 0.05;
    row.Assume(fmt::format("kv_heads: {} do not divide {} heads, taken for as many", *known, heads),
               kSpread);
    return heads;
  }
  if (StatesArguments(row)) {
    return HasArgument(row, "group-query-attention") ? IntegerArgument(row, "num-query-groups", 1)
                                                     : heads;
  }
  constexpr int64_t kUsualGroups = 8;
  if (heads % kUsualGroups != 0) {
    return heads;
  }
  const std::string_view groups = row.Meaning("groups");
  if (!groups.empty()) {
    row.Assume(groups == "grouped" ? "kv_heads: 8, as grouped queries usually have"
                                   : "kv_heads: 8, as all models of the family");
    return kUsualGroups;
  }
  return heads;
}

// Llama rounds 8/3 of the hidden size up to a multiple of 256; Megatron-LM down to one of 64
// (megatron/training/arguments.py).
int64_t UsualFfn(const PublishedRow& row, const graph::ModelSpec& model) {
  if (model.block != graph::BlockKind::kLlama) {
    return 4 * model.hidden;
  }
  constexpr int64_t kMultiple = 256;
  constexpr int64_t kMegatronMultiple = 64;
  const int64_t width = 8 * model.hidden / 3;
  return StatesArguments(row) ? width / kMegatronMultiple * kMegatronMultiple
                              : RoundUp(width, kMultiple);
}

int64_t UsualVocabulary(const PublishedRow& row, graph::BlockKind block) {
  if (const std::optional<int64_t> usual = row.Meant("usual words")) {
    return *usual;
  }
  const int64_t otherwise = block == graph::BlockKind::kLlama ? 128256 : 51200;
  return StatesArguments(row) ? WordsOfTokenizer(row).value_or(otherwise) : otherwise;
}

// If a row states the arguments of its run, those or else Megatron-LM's own defaults; otherwise the
// latent attention of DeepSeek-V3 and of the models that adopted it (arXiv 2412.19437, section
// 4.2).
void SetLatentAttention(const PublishedRow& row, graph::ModelSpec* model) {
  model->head_dim = 128;
  model->latent = {.q_rank = 1536, .kv_rank = 512, .rope_dim = 64, .value_dim = 128};
  if (StatesArguments(row)) {
    model->head_dim = IntegerArgument(row, "qk-head-dim", 128);
    model->latent = {.q_rank = IntegerArgument(row, "q-lora-rank", 0),
                     .kv_rank = IntegerArgument(row, "kv-lora-rank", 32),
                     .rope_dim = IntegerArgument(row, "qk-pos-emb-head-dim", 64),
                     .value_dim = IntegerArgument(row, "v-head-dim", 128)};
  }
}

void ReadExperts(const PublishedRow& row, graph::ModelSpec* model) {
  const std::string arch = row.Lower("arch");
  graph::MoeShape& moe = model->moe;
  moe.experts = SizeOf(row, "experts").value_or(0);
  if (moe.experts == 0) {
    return;
  }
  constexpr double kUnknownExperts = 0.4;
  if (StatesArguments(row)) {
    constexpr int64_t kDefault = 2;
    moe.topk = row.Integer("moe_topk").value_or(IntegerArgument(row, "moe-router-topk", kDefault));
  } else {
    moe.topk = row.Or<int64_t>(SizeOf(row, "moe_topk"), 1, "experts per token: 1", kUnknownExperts);
  }
  moe.expert_ffn =
      row.Or<int64_t>(SizeOf(row, "moe_ffn"), model->ffn > 0 ? model->ffn : UsualFfn(row, *model),
                      "width of an expert: as the dense layer", kUnknownExperts);
  if (row.Is("shared expert")) {
    moe.shared_expert_ffn = moe.expert_ffn;
  }
  moe.biased = row.Is("expert biases");
  moe.dense_layers = NumberAfter(arch, "first");
  constexpr std::string_view kDenseFirst = "([0]*";  // Megatron-LM: ([0]*3+[1]*12)
  const std::string frequency = row.Extra("moe-layer-freq");
  if (frequency.starts_with(kDenseFirst)) {
    moe.dense_layers = std::atoll(frequency.c_str() + kDenseFirst.size());
  }
  moe.shared_expert_ffn =
      IntegerArgument(row, "moe-shared-expert-intermediate-size", moe.shared_expert_ffn);
  moe.dense_layers = row.Meant("first dense").value_or(moe.dense_layers);
}

bool HasTiedEmbeddings(const PublishedRow& row, const graph::ModelSpec& model) {
  if (const std::optional<int64_t> widest = row.Meant("tied up to")) {
    return model.hidden <= *widest;
  }
  if (StatesArguments(row)) {
    return !HasArgument(row, "untie-embeddings-and-output-weights");
  }
  if (const std::string_view tied = row.Meaning("tied"); !tied.empty()) {
    return tied == "yes";
  }
  return model.block == graph::BlockKind::kGpt;
}

}  // namespace

Result<graph::ModelSpec> ModelOfRow(const PublishedRow& row) {
  constexpr double kLayersSpread = 0.5;
  constexpr int64_t kMaxParts = 1 << 10;
  graph::ModelSpec model;
  model.name = row.Text("model");
  model.source = row.Text("source_ref");
  model.block = row.Meant(StatesArguments(row) ? "block of arguments" : "block", kBlockNames)
                    .value_or(graph::BlockKind::kGpt);
  if (row.Is("hybrid")) {
    return RunFailed("model shape is missing: hybrid of Mamba and attention");
  }
  model.hidden = SizeOf(row, "hidden").value_or(0);
  if (model.hidden == 0) {
    return RunFailed("model shape is missing: hidden size");
  }
  model.heads = HeadsOfRow(row, model.hidden);
  const std::string arch = row.Lower("arch");
  model.head_dim = IntegerArgument(row, "kv-channels", NumberAfter(arch, "head_dim"));
  model.kv_heads = KeyValueHeads(row, model.heads);
  model.ffn = SizeOf(row, "ffn").value_or(0);
  ReadExperts(row, &model);
  if (model.ffn == 0 && (model.moe.experts == 0 || model.moe.dense_layers > 0)) {
    model.ffn = UsualFfn(row, model);
    row.Assume(model.block == graph::BlockKind::kLlama ? "feed-forward: 8/3 of hidden"
                                                       : "feed-forward: 4 times hidden");
  }
  const int64_t vocabulary = UsualVocabulary(row, model.block);
  model.vocab = row.Or(SizeOf(row, "vocab"), vocabulary, "vocabulary: the usual one");
  // Megatron-LM pads each tensor-parallel rank's part to a multiple of this.
  if (const int64_t multiple = IntegerArgument(row, "make-vocab-size-divisible-by", 0)) {
    const int64_t parts = std::clamp<int64_t>(row.Integer("tp").value_or(1), 1, kMaxParts);
    model.vocab = RoundUp(model.vocab, multiple * parts);
  }
  model.tied_embeddings = HasTiedEmbeddings(row, model);
  model.sliding_window = NumberAfter(arch, "sliding window");
  if (row.Is("latent attention")) {
    SetLatentAttention(row, &model);
  }
  if (StatesArguments(row)) {
    model.mtp_layers = IntegerArgument(row, "mtp-num-layers", 0);
  } else if (row.Is("multi-token prediction")) {
    model.mtp_layers = row.Or<int64_t>(std::nullopt, 1, "multi-token prediction: 1 layer");
  }
  model.seq_len = LengthOf(row).value_or(0);
  const bool open = !row.Integer("layers").has_value() &&  // proxies have few layers
                    SizesElsewhere(row, "layers").size() > 1 && row.Number("params_b").has_value();
  model.layers = open ? 0 : SizeOf(row, "layers", kLayersSpread).value_or(0);
  if (model.layers == 0) {
    const std::optional<int64_t> layers = LayersFromParameters(row, model);
    if (!layers.has_value()) {
      return RunFailed("model shape is missing: layers");
    }
    model.layers = *layers;
    row.Assume("layers: from the number of parameters");
  }
  return model;
}

}  // namespace prism::launch
