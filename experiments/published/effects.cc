#include "experiments/published/effects.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "graph/base/parse_number.h"
#include "launch/inputs/csv_table.h"
#include "launch/inputs/options.h"

#include "experiments/published/tables.h"

namespace prism::launch {
namespace {

void WithoutDataParallelism(RowPlan* plan) {
  graph::ParallelSizes& sizes = plan->job.parallel;
  if (sizes.ep == 1) {  // groups of experts lie inside those of data parallelism
    plan->job.global_batch_size /= sizes.dp;
    sizes.dp = 1;
  }
}

void WithoutFp32Sums(RowPlan* plan) {
  if (plan->style.separate_fp32_gradients) {
    plan->style.separate_fp32_gradients = false;
    plan->style.gradient_type = DataType::kBfloat16;
  }
}

// What an effect does to the program of a job; effects that only concern parameters are absent.
const std::map<std::string, void (*)(RowPlan*), std::less<>> kChanges = {
    {"scattered-messages", [](RowPlan* plan) { plan->style.scatter_gather_p2p = false; }},
    {"data-parallelism", WithoutDataParallelism},
    {"data-parallel-overlap",
     [](RowPlan* plan) {
       plan->style.overlap_grad_reduce = plan->style.overlap_param_gather = false;
     }},
    {"tensor-parallel-overlap",
     [](RowPlan* plan) { plan->style.tp_comm_overlap = plan->style.async_tp_all_reduce = false; }},
    {"sequence-parallelism", [](RowPlan* plan) { plan->job.sequence_parallel = false; }},
    {"recompute", [](RowPlan* plan) { plan->job.recompute = graph::Recompute::kNone; }},
    {"dropout", [](RowPlan* plan) { plan->style.dropout = false; }},
    {"fp32-gradient-sums", WithoutFp32Sums}};

std::vector<Effect> ReadEffects() {
  const Result<CsvTable> csv = CsvTable::Parse(kEffectsCsv, "effects.csv");
  std::vector<Effect> effects;
  for (size_t row = 0; row < csv->row_count(); ++row) {
    const std::string& name = csv->Field(row, "effect");
    if (effects.empty() || effects.back().name != name) {
      effects.push_back({name, {}});
    }
    double value = 0;
    if (ParseNumber(csv->Field(row, "value"), &value)) {
      effects.back().parameters[csv->Field(row, "key")] = value;
    }
  }
  return effects;
}

}  // namespace

const std::vector<Effect>& Effects() {
  static const std::vector<Effect> effects = ReadEffects();
  return effects;
}

Status TakeAway(const std::string& effect,
                std::vector<RowPlan>* plans,
                ProfileOverrides* overrides) {
  const auto known = std::ranges::find(Effects(), effect, &Effect::name);
  if (known == Effects().end()) {
    std::vector<std::string> names;
    for (const Effect& other : Effects()) {
      names.push_back(other.name);
    }
    const std::string near = NearestName(effect, names);
    return InvalidArgument(fmt::format("unknown effect '{}'; {}choose one of {}", effect,
                                       near.empty() ? "" : fmt::format("did you mean {}? ", near),
                                       fmt::join(names, ", ")));
  }
  const auto change = kChanges.find(effect);
  for (RowPlan& plan : *plans) {
    if (!plan.cannot_predict.empty()) {
      continue;
    }
    for (const auto& [key, value] : known->parameters) {
      (*overrides)[plan.cluster.profiles.back()][key] = value;  // the last profile wins
    }
    if (change != kChanges.end()) {
      change->second(&plan);
    }
  }
  return OkStatus();
}

}  // namespace prism::launch
