#include "experiments/published/row_arguments.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string>

#include <fmt/format.h>

namespace prism::launch {
namespace {

using graph::AttentionKind;

struct Words {
  std::string_view tokenizer;
  int64_t count;
};

// The tests' data are encoded in GPT-2's byte pairs unless they say otherwise; BERT's program uses
// its word pieces.
constexpr auto kWords = std::to_array<Words>({{"", 50257},
                                              {"BertWordPieceLowerCase", 30522},
                                              {"BertWordPieceCase", 28996},
                                              {"Llama2Tokenizer", 32000}});

struct Argument {
  std::string_view column;
  std::string_view name;
};

constexpr auto kArguments = std::to_array<Argument>({
    {"ffn", "ffn-hidden-size"},
    {"vocab", "vocab-size"},
    {"experts", "num-experts"},
    {"moe_ffn", "moe-ffn-hidden-size"},
});
constexpr auto kFlags = std::to_array<Argument>({
    {"sp", "sequence-parallel"},
    {"dist_optimizer", "use-distributed-optimizer"},
});

struct Unmodelled {
  std::string_view argument;
  std::string_view otherwise;  // the value without effect, "" if the argument has none
  double spread;               // of the time
};

constexpr double kLittle = 0.02;
constexpr double kSome = 0.1;

constexpr auto kUnmodelled = std::to_array<Unmodelled>({
    {"optimizer", "adam", kLittle},
    {"use-precision-aware-optimizer", "", 0},
    {"main-grads-dtype", "fp32", 0},
    {"main-params-dtype", "fp32", 0},
    {"exp-avg-dtype", "fp32", 0},
    {"exp-avg-sq-dtype", "fp32", 0},
    {"optimizer-cpu-offload", "", kSome},
    {"cpu-offloading", "", kSome},
    {"fp8-param-gather", "", kLittle},
    {"reuse-grad-buf-for-mxfp8-param-ag", "", 0},
    {"enable-cuda-graph", "", kSome},
    {"cuda-graph-impl", "none", kSome},
    {"external-cuda-graph", "", kSome},
    {"window-size", "", kSome},
    {"recompute-num-layers", "1", kSome},
    {"moe-latent-size", "", kSome},
    {"moe-expert-capacity-factor", "", kSome},
    {"moe-shared-expert-overlap", "", kLittle},
    {"hierarchical-context-parallel-sizes", "", kLittle},
    {"heterogeneous-layers-config-path", "", kSome},
});

bool DropsOut(const PublishedRow& row) {
  const std::string share = row.Extra("hidden-dropout");
  return share.empty() || std::atof(share.c_str()) > 0;
}

// cuDNN of the long-term container of 2025 had no deterministic kernels with dropout.
bool LacksDeterministicKernels(const PublishedRow& row) {
  return HasArgument(row, "deterministic-mode") && DropsOut(row) &&
         row.Says("source_ref", "_lts_") && row.Text("framework_version") < "2026";
}

// If no backend is given Transformer Engine uses cuDNN's kernels; Megatron's own layers are
// unfused.
AttentionKind AttentionOf(const PublishedRow& row) {
  const std::string backend = row.Extra("attention-backend");
  if (backend == "unfused" || backend == "local" || row.Extra("transformer_impl") == "local" ||
      (backend.empty() && LacksDeterministicKernels(row))) {
    return AttentionKind::kUnfused;
  }
  const bool flash = backend == "flash" || HasArgument(row, "use-flash-attn");
  return flash ? AttentionKind::kFlash : AttentionKind::kCudnn;
}

}  // namespace

bool StatesArguments(const PublishedRow& row) {
  return HasArgument(row, "transformer_impl");
}

bool HasArgument(const PublishedRow& row, std::string_view name) {
  const std::string& extra = row.Text("extra");
  for (size_t begin = 0; begin < extra.size();) {
    const size_t end = std::min(extra.find(';', begin), extra.size());
    const std::string_view entry = std::string_view(extra).substr(begin, end - begin);
    if (entry.substr(0, entry.find('=')) == name) {
      return true;
    }
    begin = end + 1;
  }
  return false;
}

int64_t IntegerArgument(const PublishedRow& row, std::string_view name, int64_t otherwise) {
  constexpr int64_t kMost = 1 << 20;
  const int64_t number = std::atoll(row.Extra(name).c_str());
  return number > 0 && number <= kMost ? number : otherwise;
}

std::optional<int64_t> ArgumentFor(const PublishedRow& row, std::string_view column) {
  const auto* const entry =
      std::find_if(kArguments.begin(), kArguments.end(),
                   [&](const Argument& argument) { return argument.column == column; });
  if (entry == kArguments.end() || !StatesArguments(row)) {
    return std::nullopt;
  }
  const int64_t number = IntegerArgument(row, entry->name, 0);
  return number > 0 ? std::optional(number) : std::nullopt;
}

std::optional<bool> FlagFor(const PublishedRow& row, std::string_view column) {
  const auto* const entry = std::find_if(
      kFlags.begin(), kFlags.end(), [&](const Argument& flag) { return flag.column == column; });
  return entry == kFlags.end() || !StatesArguments(row)
             ? std::nullopt
             : std::optional(HasArgument(row, entry->name));
}

void ReadArguments(const PublishedRow& row, graph::TrainingStyle* style) {
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

void NoteArguments(const PublishedRow& row, Assumptions* assumptions) {
  for (const Unmodelled& entry : kUnmodelled) {
    if (HasArgument(row, entry.argument) &&
        (entry.otherwise.empty() || row.Extra(entry.argument) != entry.otherwise)) {
      const std::string value = row.Extra(entry.argument);
      assumptions->Add(fmt::format("argument: {}{}{}, without effect here", entry.argument,
                                   value.empty() ? "" : "=", value),
                       entry.spread);
    }
  }
}

std::optional<int64_t> WordsOfTokenizer(const PublishedRow& row) {
  const bool of_bert = row.Says("arch", "bert");
  const std::string name = of_bert ? "BertWordPieceLowerCase" : row.Extra("tokenizer");
  for (const Words& entry : kWords) {
    if (entry.tokenizer == name) {
      const std::string more = row.Extra("vocab-extra-ids");
      return entry.count + std::atoll(more.c_str());
    }
  }
  return std::nullopt;
}

}  // namespace prism::launch
