#include "launch/plan/model_size.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "graph/base/json_writer.h"
#include "launch/plan/search_report.h"

namespace prism::launch {
namespace {

const SizedModel* LargestTrained(const std::vector<SizedModel>& models) {
  const auto found = std::find_if(models.rbegin(), models.rend(),
                                  [](const SizedModel& model) { return model.trains(); });
  return found == models.rend() ? nullptr : &*found;
}

}  // namespace

double TokensOf(const graph::ModelSpec& model, double tokens_per_parameter) {
  return tokens_per_parameter * static_cast<double>(graph::ModelParameters(model));
}

Result<std::vector<SizedModel>> SearchSizes(const std::vector<PlanEvaluator>& evaluators,
                                            const SearchOptions& options,
                                            MpiSession& session) {
  std::vector<SizedModel> models;
  for (size_t i = 0; i < evaluators.size(); ++i) {
    const PlanEvaluator& evaluator = evaluators[i];
    SizedModel model;
    model.evaluator = i;
    model.name = evaluator.problem().model.name;
    model.parameters = graph::ModelParameters(evaluator.problem().model);
    model.tokens = evaluator.problem().tokens;
    PRISM_ASSIGN_OR_RETURN(
        model.result, Search(evaluator, OptionsOfPart(options, i, evaluators.size()), session));
    models.push_back(std::move(model));
  }
  std::ranges::stable_sort(models, {}, &SizedModel::parameters);
  return models;
}

std::string SizesText(const std::vector<SizedModel>& models, const SearchOptions& options) {
  constexpr double kBillion = 1e9;
  std::string text = fmt::format("best by {}\n{:>14}{:>10}{:>12}{:>7}{:>9}{:>12}  plan\n",
                                 NameOf(kObjectiveNames, options.objective), "model", "B params",
                                 "B tokens", "GPUs", "days", "GPU-hours");
  for (const SizedModel& model : models) {
    text += fmt::format("{:>14}{:>10.2f}{:>12.1f}", model.name,
                        static_cast<double>(model.parameters) / kBillion, model.tokens / kBillion);
    if (!model.trains()) {
      text += fmt::format("  no plan is left; {}\n", WhyNoneIsLeft(model.result));
      continue;
    }
    const EvaluatedPlan& best = model.result.best.front();
    text += fmt::format("{:>7}{:>9.2f}{:>12.0f}  {}\n", best.plan.gpus(), best.cost.days,
                        best.cost.gpu_hours, DescribePlan(best.plan));
  }
  const SizedModel* largest = LargestTrained(models);
  return text + (largest == nullptr ? "none of the models can be trained\n"
                                    : fmt::format("largest: {}\n", largest->name));
}

std::string SizesJson(const std::vector<PlanEvaluator>& evaluators,
                      const std::vector<SizedModel>& models,
                      const SearchOptions& options) {
  return JsonText([&](JsonWriter& json) {
    const SizedModel* largest = LargestTrained(models);
    largest == nullptr ? json.NullField("largest") : json.Field("largest", largest->name);
    json.ObjectsField("models", models, [&](const SizedModel& model) {
      json.Field("model", model.name).Field("parameters", model.parameters);
      json.Key("search");
      WriteSearch(evaluators[model.evaluator], options, model.result, &json);
    });
  });
}

}  // namespace prism::launch
