#include "launch/search/sweep.h"

#include <utility>

#include <fmt/format.h>

#include "graph/base/json_writer.h"
#include "graph/base/parse_number.h"
#include "launch/search/scatter_plot.h"
#include "launch/search/search_report.h"

namespace prism::launch {
namespace {

constexpr int kMostSteps = 1000;

std::vector<std::string> PartsOf(const std::string& text) {
  std::vector<std::string> parts;
  size_t begin = 0;
  for (size_t colon = text.find(':'); colon != std::string::npos; colon = text.find(':', begin)) {
    parts.push_back(text.substr(begin, colon - begin));
    begin = colon + 1;
  }
  parts.push_back(text.substr(begin));
  return parts;
}

std::string OptionalText(const std::optional<double>& value) {
  return value.has_value() ? fmt::format("{:.6g}", *value) : "-";
}

std::string PlanLine(double value, const char* list, const EvaluatedPlan& plan) {
  return fmt::format("{:>14.6g}{:>7}{:>7}{:>10.4f}{:>9.3f}{:>13}{:>14}{:>13}{:>12}  {}\n", value,
                     list, plan.plan.gpus(), plan.time.seconds, plan.cost.days,
                     OptionalText(plan.cost.price_usd), OptionalText(plan.cost.capital_usd),
                     OptionalText(plan.cost.energy_usd), OptionalText(plan.cost.carbon_kg),
                     DescribePlan(plan.plan));
}

}  // namespace

double Variation::ValueAt(int step) const {
  return from + (to - from) * step / (steps - 1);
}

Result<Variation> ParseVariation(const std::string& text) {
  const std::vector<std::string> parts = PartsOf(text);
  Variation variation;
  const bool read = parts.size() == 4 && ParseNumber(parts[1], &variation.from) &&
                    ParseNumber(parts[2], &variation.to) && ParseNumber(parts[3], &variation.steps);
  if (!read || !(variation.from > 0) || !(variation.to > 0) || variation.steps < 2 ||
      variation.steps > kMostSteps) {
    return InvalidArgument(
        fmt::format("--vary: '{}' is not KEY:FROM:TO:STEPS with values above 0 and 2 to {} steps",
                    text, kMostSteps));
  }
  variation.key = parts[0];
  return variation;
}

Result<std::vector<SweepPoint>> Sweep(const PlanEvaluator& evaluator,
                                      const SearchOptions& options,
                                      const Variation& variation,
                                      MpiSession& session) {
  std::vector<SweepPoint> points;
  for (int step = 0; step < variation.steps; ++step) {
    SweepPoint point;
    point.value = variation.ValueAt(step);
    PRISM_ASSIGN_OR_RETURN(const PlanEvaluator varied,
                           evaluator.Varied(variation.key, point.value));
    PRISM_ASSIGN_OR_RETURN(point.result, Search(varied, options, session));
    points.push_back(std::move(point));
  }
  return points;
}

std::string SweepText(const Variation& variation,
                      const SearchOptions& options,
                      const std::vector<SweepPoint>& points) {
  std::string text = fmt::format(
      "best by {} over {}\n{:>14}{:>7}{:>7}{:>10}{:>9}{:>13}{:>14}{:>13}"
      "{:>12}  plan\n",
      ObjectiveName(options.objective), variation.key, "value", "", "GPUs", "iter, s", "days",
      "rent, USD", "capital, USD", "energy, USD", "CO2, kg");
  for (const SweepPoint& point : points) {
    for (const EvaluatedPlan& plan : point.result.given) {
      text += PlanLine(point.value, "given", plan);
    }
    if (point.result.best.empty()) {
      text += fmt::format("{:>14.6g}  no plan is left\n", point.value);
    } else {
      text += PlanLine(point.value, "best", point.result.best.front());
    }
  }
  return text + fmt::format("  assumed    everything but {} stays as the cluster states it\n",
                            variation.key);
}

std::string SweepJson(const PlanEvaluator& evaluator,
                      const SearchOptions& options,
                      const Variation& variation,
                      const std::vector<SweepPoint>& points) {
  std::string text;
  JsonWriter json(&text);
  json.BeginObject().Field("vary", variation.key);
  json.Key("points").BeginArray();
  for (const SweepPoint& point : points) {
    json.BeginObject().Field("value", point.value).Key("search");
    WriteSearch(evaluator, options, point.result, &json);
    json.EndObject();
  }
  json.EndArray().EndObject();
  return text + "\n";
}

std::string SweepSvg(const Variation& variation,
                     const SearchOptions& options,
                     const std::vector<SweepPoint>& points) {
  std::vector<ScatterPoint> dots;
  const auto add = [&](double value, const EvaluatedPlan& plan, bool marked) {
    dots.push_back({value, MeasureOf(options.objective, plan.cost),
                    fmt::format("{:.6g}: {}", value, DescribePlan(plan.plan)), marked});
  };
  for (const SweepPoint& point : points) {
    for (const EvaluatedPlan& plan : point.result.given) {
      add(point.value, plan, false);
    }
    if (!point.result.best.empty()) {
      add(point.value, point.result.best.front(), true);
    }
  }
  return ScatterSvg(
      {fmt::format("best by {}", ObjectiveName(options.objective)), variation.key,
       options.objective == Objective::kTime ? "days" : ObjectiveName(options.objective)},
      dots);
}

}  // namespace prism::launch
