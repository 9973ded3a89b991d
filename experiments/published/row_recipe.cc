// The performance recipe that a row of Megatron-Bridge's tables ran (row_style.h). A release has
// one recipe for each model and GPU, and most rows quote theirs; for the others the nearest that is
// quoted stands in, by plan, format and date, which is why releases are dated here.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <optional>
#include <regex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "experiments/published/row_style.h"

namespace prism::launch {
namespace {

// What the groups of the pattern match at its first match, 0 for one that matches nothing; empty
// without a match.
std::vector<double> NumbersIn(const std::string& text, const std::regex& pattern) {
  std::smatch found;
  std::vector<double> numbers;
  if (std::regex_search(text, found, pattern)) {
    for (size_t i = 1; i < found.size(); ++i) {
      numbers.push_back(std::atof(found[i].str().c_str()));
    }
  }
  return numbers;
}

// Releases are named by year, month and patch: "26.04.01 container". In months.
std::optional<double> DateOf(const PublishedRow& row) {
  static const std::regex release(R"(^([0-9]+)\.([0-9]+)(?:\.([0-9]+))?)");
  const std::vector<double> parts = NumbersIn(row.Text("framework_version"), release);
  return !parts.empty() && parts[1] > 0 ? std::optional(12 * parts[0] + parts[1] + parts[2] / 100)
                                        : std::nullopt;
}

// The first number in a text that denotes a release: "NVIDIA NeMo Framework Release 24.04". Years
// begin with 20; below are version numbers.
std::optional<double> ReleaseIn(const std::string& text) {
  static const std::regex release(
      R"((?:^|[^0-9.])[.]*([2-9][0-9]|[0-9]{3,})\.(0*[1-9][0-9]*)(?:\.([0-9]+))?)");
  const std::vector<double> parts = NumbersIn(text, release);
  return parts.empty() ? std::nullopt : std::optional(12 * parts[0] + parts[1] + parts[2] / 100);
}

// Date of a round of MLPerf, of which there are two per year; software is frozen two months before.
std::optional<double> DateOfRound(const std::string& version) {
  static const std::regex round(R"(^MLPerf Training v([0-9]+))");
  constexpr double kYearOfFirst = 20;  // v1.0 is of 2021
  const std::vector<double> year = NumbersIn(version, round);
  return year.empty()
             ? std::nullopt
             : std::optional(12 * (kYearOfFirst + year[0]) + (version.ends_with(".1") ? 9 : 4));
}

// Megatron-Core numbers its releases: NeMo's container of July 2024 has 0.8, and a new one follows
// about every two and a half months.
std::optional<double> DateOfCore(const PublishedRow& row) {
  static const std::regex release(R"(^0\.([0-9]+))");
  constexpr double kKnownMinor = 8;
  constexpr double kItsDate = 12 * 24 + 7;
  constexpr double kMonthsBetween = 2.5;
  const std::vector<double> minor = NumbersIn(row.Text("framework_version"), release);
  return row.Is("own scripts") && !minor.empty()
             ? std::optional(kItsDate + kMonthsBetween * (minor[0] - kKnownMinor))
             : std::nullopt;
}

// In lower case; "" if the row quotes none.
std::string Own(const PublishedRow& row) {
  constexpr std::string_view kQuotes = "it sets ";
  const std::string note = row.Lower("note");
  return note.substr(std::min(note.find(kQuotes), note.size()));
}

// Without remarks: "DeepSeekV3 (w/ MTP)".
std::string_view ModelName(const PublishedRow& row) {
  const std::string_view name = row.Text("model");
  return name.substr(0, name.find(" ("));
}

// Tables of one year write FP8-MX for what those of the next call MXFP8.
bool SamePrecision(const PublishedRow& row, const PublishedRow& other) {
  return PrecisionOfRow(row.With(nullptr)) == PrecisionOfRow(other);
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
  // In a pipeline, passes of experts overlap only if it is interleaved.
  const auto interleaves = [](const PublishedRow& one) {
    return one.Integer("vpp").value_or(1) > 1;
  };
  distance += interleaves(row) != interleaves(other) ? kOtherPlan : 0;
  return distance;
}

// What recipes of a release have in common for mixtures of experts, in the words of their own
// notes: CUDA graphs came to GB200 and GB300 with 26.02, those of the whole iteration with 26.06,
// when single nodes of B200 and B300 had graphs of parts of a layer.
std::string_view UsualOfRelease(const PublishedRow& row, double date) {
  constexpr double kGraphs = 12 * 26 + 2;
  constexpr double kWholeGraphs = 12 * 26 + 6;
  constexpr std::string_view kParts =
      "cuda_graph_impl=transformer_engine; cuda_graph_scope=['attn', 'moe_router', "
      "'moe_preprocess']; moe_flex_dispatcher_backend=hybridep";
  constexpr std::string_view kWhole =
      "cuda_graph_impl=full_iteration; moe_flex_dispatcher_backend=hybridep; moe_a2a_overlap=true";
  const bool racks = row.Is("racks");
  const bool nodes = row.Is("blackwell");
  if (racks && date >= kWholeGraphs) {
    return kWhole;
  }
  return (racks && date >= kGraphs) || (nodes && date >= kWholeGraphs) ? kParts : "";
}

}  // namespace

bool OfReleaseBefore(const PublishedRow& row, int year, int month) {
  const std::optional<double> named = ReleaseIn(row.Text("framework_version"));
  const std::optional<double> date = named.has_value() ? named : DateOfCore(row);
  return date.has_value() && *date < 12 * year + month;
}

bool BuiltBefore(const PublishedRow& row, int year, int month) {
  for (const std::optional<double>& date :
       {ReleaseIn(row.Text("framework_version")), ReleaseIn(row.Text("framework")),
        DateOfRound(row.Text("framework_version"))}) {
    if (date.has_value()) {
      return *date < 12 * year + month;
    }
  }
  return false;
}

std::string RecipeOfRow(const PublishedRow& row) {
  std::string recipe = Own(row);
  if (!recipe.empty()) {
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
    constexpr double kOtherEra = 6;
    const bool of_era =
        !date.has_value() || UsualOfRelease(row, *date) == UsualOfRelease(row, *its_date);
    const double distance = DistanceOf(row, other, months) + (of_era ? 0 : kOtherEra);
    std::string its = distance < nearest ? Own(other) : "";
    if (!its.empty()) {
      nearest = distance;
      recipe = std::move(its);
    }
  }
  if (!recipe.empty()) {
    constexpr double kSpread = 0.05;
    row.Assume("recipe: as that of the nearest release", kSpread);
  } else if (row.Is("bridge") && !row.Text("experts").empty()) {
    constexpr double kLatest = 12 * 26 + 8;
    recipe = UsualOfRelease(row, date.value_or(kLatest));
    if (!recipe.empty()) {
      row.Assume("recipe: as those of its release for such models and GPUs",
                 date.has_value() ? 0.15 : 0.4);
    }
  }
  return recipe;
}

}  // namespace prism::launch
