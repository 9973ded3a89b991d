// Recomputation (row_style.h): what the column says in words, else what was usual for framework and
// year.
#include <algorithm>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "experiments/published/row_style.h"

namespace prism::launch {
namespace {

constexpr double kUnknownWord = 0.1;

constexpr EnumNames<uint32_t, 6> kPartNames = {
    {{graph::kRecomputeNorm, "norm"},
     {graph::kRecomputeActivation, "activation"},
     {graph::kRecomputeMlp, "mlp"},
     {graph::kRecomputeMoe, "moe"},
     {graph::kRecomputeUpProjection, "up-projection"},
     {graph::kRecomputeCoreAttention, "core-attention"}}};

// What the column says.
graph::Recompute Stated(const PublishedRow& row) {
  const std::string_view stated = row.Meaning("recompute");
  if (stated == "none") {
    return graph::Recompute::kNone;
  }
  if (stated == "full" && row.Is("recompute block")) {
    row.Assume("recompute: every layer, not only those of a block", kUnknownWord);
  } else if (stated == "on") {
    row.Assume("recompute: on without saying what, taken for whole layers", kUnknownWord);
  } else if (stated.empty() && row.Meaning("recompute part").empty()) {
    row.Assume(fmt::format("recompute: '{}' taken for selective", row.Lower("recompute")),
               kUnknownWord);
  }
  return stated == "full" || stated == "on" ? graph::Recompute::kFull
                                            : graph::Recompute::kSelective;
}

// What was usual where the column is empty.
graph::Recompute Usual(const PublishedRow& row, const graph::ModelSpec& model) {
  const std::string_view usual = row.Meaning("usual recompute");
  if (usual == "counted" || usual == "full") {
    row.Assume(usual == "full" ? "recompute: full, as before 2022"
                               : "recompute: full, as the source counts its FLOPs");
    return graph::Recompute::kFull;
  }
  constexpr double kSpread = 0.08;
  if (FrameworkOfRow(row) == kJax) {
    row.Assume("recompute: feed-forwards and norms, else JAX's runs would not fit", kSpread);
    return graph::Recompute::kSelective;
  }
  if (usual == "torchtitan") {
    row.Assume("recompute: per op, as torchtitan's presets have it", kSpread);
    return graph::Recompute::kSelective;
  }
  // With flash attention the core is recomputed by its kernel anyway and nothing else is.
  const bool unfused = usual == "selective" || LacksFusedAttention(row, model);
  row.Assume(unfused ? "recompute: selective" : "recompute: none");
  return unfused ? graph::Recompute::kSelective : graph::Recompute::kNone;
}

// Whether a word of the column is one that surrounds the names of parts, or such a name.
bool IsKnownWord(const std::string& word) {
  const auto says = [&](const char* field, std::string_view value) {
    return std::ranges::any_of(WordsAbout(field), [&](const Word& known) {
      return (value.empty() || known.value == value) && Matches(known.text, "." + word + ".");
    });
  };
  return says("recompute part", "") || says("recompute", "selective");
}

}  // namespace

graph::Recompute RecomputeOfRow(const PublishedRow& row, const graph::ModelSpec& model) {
  return row.Text("recompute").empty() ? Usual(row, model) : Stated(row);
}

uint32_t RecomputePartsOfRow(const PublishedRow& row) {
  if (FrameworkOfRow(row) == kTorchtitan) {
    return row.Is("every layer") ? graph::kRecomputeEverySecondLayer
                                 : graph::kRecomputeEverySecondMatmul;
  }
  for (const std::string& word : row.Words("recompute")) {
    if (row.Is("lists parts") && !IsKnownWord(word)) {
      row.Assume(fmt::format("recompute: '{}' is not known, left out", word), kUnknownWord);
    }
  }
  const uint32_t parts = row.Parts("recompute part", kPartNames);
  return parts == 0 ? uint32_t{graph::kRecomputeCoreAttention} : parts;
}

}  // namespace prism::launch
