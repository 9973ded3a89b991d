#include "experiments/published/row_arguments.h"

#include <algorithm>
#include <cstdlib>
#include <set>
#include <string>

#include <fmt/format.h>

#include "graph/base/parse_number.h"

namespace prism::launch {
namespace {

using graph::AttentionKind;

bool DropsOut(const PublishedRow& row) {
  const std::string share = row.Extra("hidden-dropout");
  return share.empty() || std::atof(share.c_str()) > 0;
}

// cuDNN of the long-term container of 2025 had no deterministic kernels with dropout.
bool LacksDeterministicKernels(const PublishedRow& row) {
  return HasArgument(row, "deterministic-mode") && DropsOut(row) && row.Is("long-term container") &&
         row.Text("framework_version") < "2026";
}

constexpr EnumNames<AttentionKind, 2> kAttentionNames = {
    {{AttentionKind::kUnfused, "unfused"}, {AttentionKind::kFlash, "flash"}}};

// If no backend is given Transformer Engine uses cuDNN's kernels; Megatron's own layers are
// unfused.
AttentionKind AttentionOf(const PublishedRow& row) {
  const bool lacks = row.Extra("attention-backend").empty() && LacksDeterministicKernels(row);
  return lacks
             ? AttentionKind::kUnfused
             : row.Meant("attention of arguments", kAttentionNames).value_or(AttentionKind::kCudnn);
}

// Arguments that change time or memory and are not modelled.
void NoteArguments(const PublishedRow& row) {
  std::set<std::string> seen;
  for (const std::string& entry : row.Entries()) {
    const auto words = WordsAbout("unmodelled");
    const auto word = std::ranges::find_if(words, [&](const Word& known) {
      return Matches(known.text, entry) || Matches(known.text, KeyOf(entry));
    });
    double spread = 0;
    if (seen.insert(KeyOf(entry)).second && word != words.end() &&
        ParseNumber(word->value, &spread)) {
      row.Assume(fmt::format("argument: {}, without effect here", entry), spread);
    }
  }
}

}  // namespace

bool StatesArguments(const PublishedRow& row) {
  return HasArgument(row, "transformer_impl");
}

bool HasArgument(const PublishedRow& row, std::string_view name) {
  return std::ranges::any_of(row.Entries(),
                             [&](const std::string& entry) { return KeyOf(entry) == name; });
}

int64_t IntegerArgument(const PublishedRow& row, std::string_view name, int64_t otherwise) {
  constexpr int64_t kMost = 1 << 20;
  const int64_t number = std::atoll(row.Extra(name).c_str());
  return number > 0 && number <= kMost ? number : otherwise;
}

std::optional<int64_t> ArgumentFor(const PublishedRow& row, std::string_view column) {
  const int64_t number =
      StatesArguments(row) ? IntegerArgument(row, ColumnEntry(column, "argument"), 0) : 0;
  return number > 0 ? std::optional(number) : std::nullopt;
}

std::optional<bool> FlagFor(const PublishedRow& row, std::string_view column) {
  return StatesArguments(row) ? std::optional(HasArgument(row, ColumnEntry(column, "argument")))
                              : std::nullopt;
}

void ReadArguments(const PublishedRow& row, graph::TrainingStyle* style) {
  NoteArguments(row);
  style->attention = AttentionOf(row);
  style->dropout = DropsOut(row);
  style->fused_bias_activation = !HasArgument(
      row, HasArgument(row, "swiglu") ? "no-bias-swiglu-fusion" : "no-bias-gelu-fusion");
  style->fused_softmax = !HasArgument(row, "no-masked-softmax-fusion");
  style->fused_cross_entropy = row.Extra("cross-entropy-fusion-impl") == "te";
  style->compiled_cross_entropy =
      HasArgument(row, "cross-entropy-loss-fusion") && !style->fused_cross_entropy;
  style->gradient_accumulation_fusion = !HasArgument(row, "no-gradient-accumulation-fusion");
  style->overlap_grad_reduce = HasArgument(row, "overlap-grad-reduce");
  style->overlap_param_gather = HasArgument(row, "overlap-param-gather");
  const std::string context = row.Extra("cp-comm-type");
  style->tp_comm_overlap = HasArgument(row, "tp-comm-overlap");
  style->cp_all_to_all = context == "a2a";
  style->cp_all_gather = context == "allgather";
  const auto layers_of = [&](const char* name) {
    return static_cast<int32_t>(IntegerArgument(row, name, 0));
  };
  style->first_stage_layers = layers_of("decoder-first-pipeline-num-layers");
  style->last_stage_layers = layers_of("decoder-last-pipeline-num-layers");
  if (style->precision == graph::Precision::kFloat16) {
    style->gradient_type = DataType::kFloat16;
  } else if (!HasArgument(row, "grad-reduce-in-bf16")) {
    style->gradient_type = DataType::kFloat32;  // what --bf16 turns on
  }
}

std::optional<int64_t> WordsOfTokenizer(const PublishedRow& row) {
  const std::optional<int64_t> words = row.Meant("words of tokenizer");
  return words.has_value() ? *words + std::atoll(row.Extra("vocab-extra-ids").c_str()) : words;
}

}  // namespace prism::launch
