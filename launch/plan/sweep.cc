#include "launch/plan/sweep.h"

#include <sstream>
#include <utility>

#include <fmt/format.h>

#include "graph/base/intern.h"
#include "graph/base/json_writer.h"
#include "launch/plan/search_report.h"
#include "replayer/report/scatter_plot.h"

namespace prism::launch {
namespace {

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

// The evaluator that searched the point.
PlanEvaluator AtPoint(const PlanEvaluator& evaluator,
                      const Variation& variation,
                      const SweepPoint& point) {
  Result<PlanEvaluator> varied = evaluator.Varied(variation.key, point.value);
  PRISM_CHECK(varied.ok());  // as when the point was searched
  return *std::move(varied);
}

}  // namespace

Result<std::vector<SweepPoint>> Sweep(const PlanEvaluator& evaluator,
                                      const SearchOptions& options,
                                      const Variation& variation,
                                      MpiSession& session) {
  // A value that cannot be used is reported before anything is searched.
  std::vector<PlanEvaluator> varied;
  for (int step = 0; step < variation.steps; ++step) {
    PRISM_ASSIGN_OR_RETURN(PlanEvaluator at_value,
                           evaluator.Varied(variation.key, variation.ValueAt(step)));
    varied.push_back(std::move(at_value));
  }
  std::vector<SweepPoint> points;
  for (size_t step = 0; step < varied.size(); ++step) {
    SweepPoint point;
    point.value = variation.ValueAt(static_cast<int>(step));
    PRISM_ASSIGN_OR_RETURN(
        point.result, Search(varied[step], OptionsOfPart(options, step, varied.size()), session));
    points.push_back(std::move(point));
  }
  return points;
}

std::string SweepText(const PlanEvaluator& evaluator,
                      const SearchOptions& options,
                      const Variation& variation,
                      const std::vector<SweepPoint>& points) {
  std::string text = fmt::format(
      "best by {} over {}\n{:>14}{:>7}{:>7}{:>10}{:>9}{:>13}{:>14}{:>13}"
      "{:>12}  plan\n",
      NameOf(kObjectiveNames, options.objective), variation.key, "value", "", "GPUs", "iter, s",
      "days", "rent, USD", "capital, USD", "energy, USD", "CO2, kg");
  for (const SweepPoint& point : points) {
    for (const EvaluatedPlan& plan : point.result.given) {
      text += PlanLine(point.value, "given", plan);
    }
    if (point.result.best.empty()) {
      text +=
          fmt::format("{:>14.6g}  no plan is left; {}\n", point.value, WhyNoneIsLeft(point.result));
    } else {
      text += PlanLine(point.value, "best", point.result.best.front());
    }
  }
  text +=
      fmt::format("  assumed    everything but {} stays as the cluster states it\n", variation.key);
  std::vector<std::string> offload;
  for (const SweepPoint& point : points) {
    for (const std::string& line :
         OffloadLines(AtPoint(evaluator, variation, point), point.result)) {
      InternValue(offload, line);
    }
  }
  for (const std::string& line : offload) {
    text += fmt::format("  assumed    {}\n", line);
  }
  return text;
}

std::string SweepJson(const PlanEvaluator& evaluator,
                      const SearchOptions& options,
                      const Variation& variation,
                      const std::vector<SweepPoint>& points) {
  return JsonText([&](JsonWriter& json) {
    json.Field("vary", variation.key);
    json.ObjectsField("points", points, [&](const SweepPoint& point) {
      json.Field("value", point.value).Key("search");
      WriteSearch(AtPoint(evaluator, variation, point), options, point.result, &json);
    });
  });
}

std::string SweepCsv(const PlanEvaluator& evaluator,
                     const Variation& variation,
                     const std::vector<SweepPoint>& points) {
  std::string text;
  for (const SweepPoint& point : points) {
    std::istringstream lines(SearchCsv(AtPoint(evaluator, variation, point), point.result));
    std::string line;
    std::getline(lines, line);
    if (text.empty()) {
      text = fmt::format("{},{}\n", variation.key, line);
    }
    while (std::getline(lines, line)) {
      text += fmt::format("{},{}\n", point.value, line);
    }
  }
  return text;
}

std::string SweepSvg(const Variation& variation,
                     const SearchOptions& options,
                     const std::vector<SweepPoint>& points) {
  std::vector<replayer::ScatterPoint> dots;
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
  return replayer::ScatterSvg(
      {fmt::format("best by {}", NameOf(kObjectiveNames, options.objective)), variation.key,
       options.objective == Objective::kTime ? "days" : NameOf(kObjectiveNames, options.objective)},
      dots);
}

}  // namespace prism::launch
