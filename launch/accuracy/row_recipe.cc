#include "launch/accuracy/row_recipe.h"

#include <charconv>
#include <cmath>
#include <optional>
#include <string_view>

#include "launch/accuracy/row_style.h"

namespace prism::launch {
namespace {

constexpr std::string_view kQuotes = "it sets ";

// Releases are named by year, month and patch: "26.04.01 container". In months.
std::optional<double> ParseRelease(std::string_view version) {
  double parts[3] = {0, 0, 0};
  const char* at = version.data();
  const char* end = at + version.size();
  for (double& part : parts) {
    int number = 0;
    const auto [next, error] = std::from_chars(at, end, number);
    if (error != std::errc()) {
      break;
    }
    part = number;
    at = next == end || *next != '.' ? end : next + 1;
  }
  return parts[1] > 0 ? std::optional(12 * parts[0] + parts[1] + parts[2] / 100) : std::nullopt;
}

std::optional<double> DateOf(const PublishedRow& row) {
  return ParseRelease(row.Text("framework_version"));
}

RowRecipe Own(const PublishedRow& row) {
  const std::string note = row.Lower("note");
  const size_t begin = note.find(kQuotes);
  return begin == std::string::npos ? RowRecipe{} : RowRecipe{note.substr(begin)};
}

// Without remarks: "DeepSeekV3 (w/ MTP)".
std::string_view ModelName(const PublishedRow& row) {
  const std::string_view name = row.Text("model");
  return name.substr(0, name.find(" ("));
}

// Tables of a year write FP8-MX for what those of the next call MXFP8.
bool SamePrecision(const PublishedRow& row, const PublishedRow& other) {
  Assumptions none;
  return PrecisionOfRow(row, &none) == PrecisionOfRow(other, &none);
}

// In months; a change of plan or precision changes a recipe more than a release does.
double DistanceOf(const PublishedRow& row, const PublishedRow& other, double months) {
  constexpr double kOtherPrecision = 12;
  constexpr double kOtherPlan = 4;
  double distance = months;
  distance += SamePrecision(row, other) ? 0 : kOtherPrecision;
  for (const char* column : {"tp", "pp", "ep", "micro_batch"}) {
    distance += row.Text(column) != other.Text(column) ? kOtherPlan : 0;
  }
  return distance;
}

// What recipes of a release have in common for mixtures of experts, in the words of their own
// notes: CUDA graphs came to GB200 and GB300 with 26.02, of the whole iteration with 26.06, when
// single nodes of B200 and B300 had those of parts of a layer.
std::string_view UsualOfRelease(const PublishedRow& row, double date) {
  constexpr double kGraphs = 12 * 26 + 2;
  constexpr double kWholeGraphs = 12 * 26 + 6;
  constexpr std::string_view kParts =
      "cuda_graph_impl=transformer_engine; cuda_graph_scope=['attn', 'moe_router', "
      "'moe_preprocess']; moe_flex_dispatcher_backend=hybridep";
  constexpr std::string_view kWhole =
      "cuda_graph_impl=full_iteration; moe_flex_dispatcher_backend=hybridep; moe_a2a_overlap=true";
  const bool racks = row.Says("gpu", "gb200") || row.Says("gpu", "gb300");
  const bool nodes = row.Says("gpu", "b200") || row.Says("gpu", "b300");
  if (racks && date >= kWholeGraphs) {
    return kWhole;
  }
  return (racks && date >= kGraphs) || (nodes && date >= kWholeGraphs) ? kParts : "";
}

}  // namespace

bool OfReleaseBefore(const PublishedRow& row, int year, int month) {
  constexpr double kOldest = 12 * 20;  // below: numbers of versions, not years
  const std::string_view version = row.Text("framework_version");
  const size_t begin = version.find_first_of("0123456789");
  const std::optional<double> date =
      begin == std::string_view::npos ? std::nullopt : ParseRelease(version.substr(begin));
  return date.has_value() && *date >= kOldest && *date < 12 * year + month;
}

RowRecipe RecipeOfRow(const PublishedRow& row, Assumptions* assumptions) {
  RowRecipe recipe = Own(row);
  if (!recipe.note.empty()) {
    return recipe;
  }
  const std::optional<double> date = DateOf(row);
  constexpr double kUndated = 6;   // months to any release
  constexpr double kFarthest = 9;  // months, or what counts as such
  double nearest = kFarthest;
  for (const PublishedRow& other : row.RowsOfTable()) {
    const std::optional<double> its_date = DateOf(other);
    if (ModelName(other) != ModelName(row) || other.Text("gpu") != row.Text("gpu") ||
        !its_date.has_value()) {
      continue;
    }
    const double months = date.has_value() ? std::abs(*its_date - *date) : kUndated;
    const double distance = DistanceOf(row, other, months);
    RowRecipe its = distance < nearest ? Own(other) : RowRecipe{};
    if (!its.note.empty()) {
      nearest = distance;
      recipe = std::move(its);
    }
  }
  if (!recipe.note.empty()) {
    constexpr double kSpread = 0.05;
    assumptions->Add("recipe: as that of the nearest release", kSpread);
    return recipe;
  }
  if (row.Says("framework", "bridge") && !row.Text("experts").empty()) {
    constexpr double kLatest = 12 * 26 + 8;
    recipe.note = UsualOfRelease(row, date.value_or(kLatest));
    if (!recipe.note.empty()) {
      assumptions->Add("recipe: as those of its release for such models and GPUs",
                       date.has_value() ? 0.15 : 0.4);
    }
  }
  return recipe;
}

}  // namespace prism::launch
