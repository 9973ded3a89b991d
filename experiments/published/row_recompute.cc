#include "experiments/published/row_recompute.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "experiments/published/row_style.h"

namespace prism::launch {
namespace {

constexpr double kUnknownWord = 0.1;

struct PartWord {
  std::string_view word;
  uint32_t part;
};

constexpr auto kPartWords = std::to_array<PartWord>({
    {"norm", graph::kRecomputeNorm},
    {"layernorm", graph::kRecomputeNorm},
    {"act", graph::kRecomputeActivation},
    {"moe_act", graph::kRecomputeActivation},
    {"mlp", graph::kRecomputeMlp},
    {"moe", graph::kRecomputeMoe},
    {"mla_up_proj", graph::kRecomputeUpProjection},
    {"core_attn", graph::kRecomputeCoreAttention},
});

// Words that may surround the names of parts.
constexpr auto kOtherWords =
    std::to_array<std::string_view>({"selective", "sac", "partial", "modules", "activation",
                                     "checkpointing", "recompute", "core", "attention"});

bool Names(const std::vector<std::string>& words, std::string_view word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

// "no recompute", "off (default)", "not used".
bool BeginsWithNo(const std::vector<std::string>& words) {
  constexpr std::string_view kNo[] = {"no", "not", "off", "none", "never", "without"};
  return std::ranges::find(kNo, words.front()) != std::end(kNo);
}

// Whether a word says what is recomputed: a part, an op, or every how many layers.
bool SaysWhat(const std::vector<std::string>& words) {
  return std::ranges::any_of(words, [](const std::string& word) {
    return std::ranges::find(kOtherWords, word) != kOtherWords.end() ||
           std::ranges::find(kPartWords, word, &PartWord::word) != kPartWords.end() ||
           word.starts_with("layer") || word.starts_with("op") || word.starts_with("per") ||
           (word.front() >= '0' && word.front() <= '9');
  });
}

// Null if the column is empty.
std::optional<graph::Recompute> Stated(const PublishedRow& row, Assumptions* assumptions) {
  const std::string text = row.Lower("recompute");
  const std::vector<std::string> words = row.Words("recompute");
  if (text.empty()) {
    return std::nullopt;
  }
  if (Names(words, "full")) {
    if (Names(words, "block")) {
      assumptions->Add("recompute: every layer, not only those of a block", kUnknownWord);
    }
    return graph::Recompute::kFull;
  }
  const bool negates = row.Flag("recompute") == false || words.empty() || text == "n/a" ||
                       Names(words, "disabled") || Names(words, "none") || BeginsWithNo(words);
  if (negates) {
    return graph::Recompute::kNone;
  }
  if (row.Flag("recompute") == true || text == "all" || Names(words, "uniform")) {
    assumptions->Add("recompute: on without saying what, taken for whole layers", kUnknownWord);
    return graph::Recompute::kFull;
  }
  if (!SaysWhat(words)) {
    assumptions->Add(fmt::format("recompute: '{}' taken for selective", text), kUnknownWord);
  }
  return graph::Recompute::kSelective;
}

// torchtitan's options: op, or every how many layers.
uint32_t PartsOfTorchtitan(const std::vector<std::string>& words) {
  const bool by_layer = std::any_of(words.begin(), words.end(), [](const std::string& word) {
    return word.starts_with("layer") || (word.front() >= '0' && word.front() <= '9');
  });
  return by_layer ? graph::kRecomputeEverySecondLayer : graph::kRecomputeEverySecondMatmul;
}

}  // namespace

graph::Recompute RecomputeOfRow(const PublishedRow& row,
                                const graph::ModelSpec& model,
                                Assumptions* assumptions) {
  if (const std::optional<graph::Recompute> stated = Stated(row, assumptions)) {
    return *stated;
  }
  if (row.Says("tflops_kind", "incl. recompute")) {
    assumptions->Add("recompute: full, as the source counts its FLOPs");
    return graph::Recompute::kFull;
  }
  // Before Korthikanti et al. (2022) Megatron recomputed whole layers; with flash attention the
  // core is recomputed by its kernel anyway and nothing else is.
  const bool early = row.Says("framework", "deepspeed") || row.IsFrom("2020") ||
                     row.IsFrom("sc21") || row.Says("model", "mt-nlg");
  if (early) {
    assumptions->Add("recompute: full, as before 2022");
    return graph::Recompute::kFull;
  }
  if (FamilyOfRow(row) == FrameworkFamily::kJax) {
    assumptions->Add("recompute: feed-forwards and norms, else JAX's runs would not fit", 0.08);
    return graph::Recompute::kSelective;
  }
  if (row.Says("framework", "torchtitan")) {
    assumptions->Add("recompute: per op, as torchtitan's presets have it", 0.08);
    return graph::Recompute::kSelective;
  }
  const bool unfused = row.Says("framework", "megascale") ||
                       row.Lower("framework") == "megatron-lm" || LacksFusedAttention(row, model);
  assumptions->Add(unfused ? "recompute: selective" : "recompute: none");
  return unfused ? graph::Recompute::kSelective : graph::Recompute::kNone;
}

uint32_t RecomputePartsOfRow(const PublishedRow& row, Assumptions* assumptions) {
  const std::vector<std::string> words = row.Words("recompute");
  if (FamilyOfRow(row) == FrameworkFamily::kTorchtitan) {
    return PartsOfTorchtitan(words);
  }
  uint32_t parts = 0;
  const bool is_selective = Names(words, "selective");
  for (const std::string& word : words) {
    const auto* known = std::find_if(kPartWords.begin(), kPartWords.end(),
                                     [&](const PartWord& entry) { return entry.word == word; });
    if (known != kPartWords.end()) {
      parts |= known->part;
    } else if (is_selective &&
               std::find(kOtherWords.begin(), kOtherWords.end(), word) == kOtherWords.end()) {
      assumptions->Add(fmt::format("recompute: '{}' is not known, left out", word), kUnknownWord);
    }
  }
  return parts == 0 ? uint32_t{graph::kRecomputeCoreAttention} : parts;
}

}  // namespace prism::launch
