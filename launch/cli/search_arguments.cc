#include "launch/cli/search_arguments.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>
#include <sstream>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "graph/job/names.h"
#include "launch/inputs/presets.h"
#include "launch/plan/model_size.h"

namespace prism::launch {
namespace {

constexpr int64_t kMaxCount = int64_t{1} << 20;

// Comma-separated whole numbers, each at least `lowest`.
template <typename T>
Status ReadList(const VerbArguments& arguments,
                const char* flag,
                int64_t lowest,
                std::vector<T>* list) {
  const std::string text = arguments.Text(flag);
  const char* at = text.data();
  const char* end = at + text.size();
  if (arguments.Has(flag) && text.empty()) {
    return InvalidArgument(
        fmt::format("--{} is empty; give numbers, or leave it out for any", flag));
  }
  while (at != end) {
    int64_t value = 0;
    const auto [next, error] = std::from_chars(at, end, value);
    if (error != std::errc() || value < lowest || value > kMaxCount ||
        (next != end && (*next != ',' || next + 1 == end))) {
      return InvalidArgument(
          fmt::format("--{}: '{}' is not a list N,N,... of whole numbers from {} to {}", flag, text,
                      lowest, kMaxCount));
    }
    list->push_back(static_cast<T>(value));
    at = next == end ? end : next + 1;
  }
  std::sort(list->begin(), list->end());
  list->erase(std::unique(list->begin(), list->end()), list->end());
  return OkStatus();
}

Status ReadRecompute(const VerbArguments& arguments, std::vector<graph::Recompute>* choices) {
  const std::string text = arguments.Text("recompute", "any");
  if (const auto recompute = graph::RecomputeNamed(text)) {
    choices->push_back(*recompute);
    return OkStatus();
  }
  return text == "any" ? OkStatus()
                       : InvalidArgument(
                             fmt::format("--recompute: '{}' is unknown; choose one of any, {}",
                                         text, fmt::join(AllNames(graph::kRecomputeNames), ", ")));
}

Status ReadChoices(const VerbArguments& arguments, PlanChoices* choices) {
  PRISM_RETURN_IF_ERROR(ReadList(arguments, "gpus", 1, &choices->gpus));
  PRISM_RETURN_IF_ERROR(arguments.ReadInt("max-gpus", 1, kMaxCount, &choices->max_gpus));
  PRISM_RETURN_IF_ERROR(ReadList(arguments, "tp", 1, &choices->tp));
  PRISM_RETURN_IF_ERROR(ReadList(arguments, "cp", 1, &choices->cp));
  PRISM_RETURN_IF_ERROR(ReadList(arguments, "pp", 1, &choices->pp));
  PRISM_RETURN_IF_ERROR(ReadList(arguments, "dp", 1, &choices->dp));
  PRISM_RETURN_IF_ERROR(ReadList(arguments, "ep", 1, &choices->ep));
  PRISM_RETURN_IF_ERROR(ReadList(arguments, "vpp", 1, &choices->vpp));
  PRISM_RETURN_IF_ERROR(ReadList(arguments, "micro-batch-size", 1, &choices->micro_batch_sizes));
  PRISM_RETURN_IF_ERROR(ReadRecompute(arguments, &choices->recompute));
  PRISM_RETURN_IF_ERROR(ReadList(arguments, "zero", 0, &choices->zero));
  if (!choices->zero.empty() && choices->zero.back() > 3) {
    return InvalidArgument("--zero: stages are 0 to 3; give some of them, as in 1,2");
  }
  std::string sequence_parallel = "any";
  PRISM_RETURN_IF_ERROR(
      arguments.ReadChoice("sequence-parallel", {"any", "on", "off"}, &sequence_parallel));
  if (sequence_parallel != "any") {
    choices->sequence_parallel = {sequence_parallel == "on"};
  }
  std::string offload = "none";
  PRISM_RETURN_IF_ERROR(arguments.ReadChoice(
      "offload", {"none", "optimizer", "activations", "all", "any"}, &offload));
  const auto chosen = graph::OffloadNamed(offload);
  choices->offload = {graph::Offload::kNone, graph::Offload::kOptimizer,
                      graph::Offload::kActivations, graph::Offload::kAll};
  if (chosen.has_value()) {
    choices->offload = {*chosen};
  }
  return OkStatus();
}

Status ReadBound(const VerbArguments& arguments, const char* flag, std::optional<double>* bound) {
  if (!arguments.Has(flag)) {
    return OkStatus();
  }
  double value = 0;
  PRISM_RETURN_IF_ERROR(arguments.ReadNumber(flag, &value));
  *bound = value;
  return OkStatus();
}

// Refuses two options that specify the same thing in different ways.
Status RefuseBoth(const VerbArguments& arguments, const char* one, const char* other) {
  return arguments.Has(one) && arguments.Has(other)
             ? InvalidArgument(fmt::format("--{} and --{} exclude each other", one, other))
             : OkStatus();
}

}  // namespace

Result<SearchOptions> ReadSearchOptions(const VerbArguments& arguments) {
  SearchOptions options;
  PRISM_RETURN_IF_ERROR(ReadChoices(arguments, &options.choices));
  PRISM_RETURN_IF_ERROR(ReadBound(arguments, "budget", &options.budget_usd));
  PRISM_RETURN_IF_ERROR(ReadBound(arguments, "gpu-hours", &options.budget_gpu_hours));
  PRISM_RETURN_IF_ERROR(ReadBound(arguments, "deadline", &options.deadline_days));
  for (const std::string& text : arguments.Texts("plan")) {
    PRISM_ASSIGN_OR_RETURN(const Plan plan, ParsePlan(text));
    options.given.push_back(plan);
  }
  const bool open = options.choices.gpus.empty();
  PRISM_RETURN_IF_ERROR(RefuseBoth(arguments, "gpus", "max-gpus"));
  PRISM_RETURN_IF_ERROR(RefuseBoth(arguments, "tokens", "tokens-per-parameter"));
  PRISM_RETURN_IF_ERROR(RefuseBoth(arguments, "top", "exhaustive"));
  if (open && !options.budget_usd.has_value() && !options.budget_gpu_hours.has_value() &&
      !options.deadline_days.has_value()) {
    return InvalidArgument(
        "nothing limits the search; give --gpus N (or N,M,...), --budget USD, --gpu-hours H or "
        "--deadline DAYS");
  }
  // A deadline or budget bounds one measure; unless the user says otherwise the other one is
  // minimised.
  std::string objective = options.deadline_days.has_value() ? "cost" : "time";
  PRISM_RETURN_IF_ERROR(arguments.ReadChoice("objective", {"time", "cost", "energy"}, &objective));
  options.objective = objective == "time"   ? Objective::kTime
                      : objective == "cost" ? Objective::kCost
                                            : Objective::kEnergy;
  int64_t top = 10;
  PRISM_RETURN_IF_ERROR(arguments.ReadInt("top", 1, kMaxCount, &top));
  options.top = static_cast<size_t>(top);
  options.exhaustive = arguments.Has("exhaustive");
  return options;
}

Result<std::vector<std::string>> ReadModelNames(const VerbArguments& arguments) {
  std::vector<std::string> models;
  std::istringstream text(arguments.Text("model", "gpt3-175b"));
  for (std::string model; std::getline(text, model, ',');) {
    models.push_back(model);
  }
  if (models.empty() || std::find(models.begin(), models.end(), "") != models.end()) {
    return InvalidArgument(
        fmt::format("--model: '{}' has an empty name; give NAME or NAME,NAME,...", text.str()));
  }
  return models;
}

Result<SearchProblem> ReadSite(const VerbArguments& arguments) {
  SearchProblem problem;
  const std::string cluster = arguments.Text("cluster", "h100-8x");
  PRISM_ASSIGN_OR_RETURN(problem.cluster, LoadCluster(cluster));
  PRISM_ASSIGN_OR_RETURN(problem.costs, LoadSiteCosts(cluster));
  PRISM_ASSIGN_OR_RETURN(problem.host, LoadHostMemory(cluster));
  problem.framework = arguments.Text("framework", "megatron-core");
  if (arguments.Has("price")) {
    double price = 0;
    PRISM_RETURN_IF_ERROR(arguments.ReadNumber("price", &price));
    problem.costs.State("gpu_hour_usd", price, "USD/h");
  }
  return problem;
}

Result<SearchProblem> ReadProblem(const VerbArguments& arguments, const std::string& model) {
  PRISM_ASSIGN_OR_RETURN(SearchProblem problem, ReadSite(arguments));
  PRISM_ASSIGN_OR_RETURN(ModelPreset preset, LoadModel(model));
  problem.model = std::move(preset.model);
  problem.global_batch_size = preset.layout.global_batch_size;
  problem.seq_len = problem.model.seq_len;
  PRISM_RETURN_IF_ERROR(
      arguments.ReadInt("global-batch-size", 1, kMaxCount, &problem.global_batch_size));
  PRISM_RETURN_IF_ERROR(arguments.ReadInt("seq-len", 1, int64_t{1} << 24, &problem.seq_len));
  if (problem.global_batch_size < 1) {
    return InvalidArgument("the model's file has no batch size; give --global-batch-size N");
  }
  problem.tokens = 300e9;
  PRISM_RETURN_IF_ERROR(arguments.ReadNumber("tokens", &problem.tokens));
  if (arguments.Has("tokens-per-parameter")) {
    double ratio = 0;
    PRISM_RETURN_IF_ERROR(arguments.ReadNumber("tokens-per-parameter", &ratio));
    problem.tokens = TokensOf(problem.model, ratio);
  }
  return problem;
}

Status CheckSite(const SearchProblem& site, const SearchOptions& options) {
  if (options.budget_usd.has_value() && !site.costs.Value("gpu_hour_usd").has_value()) {
    return InvalidArgument("--budget: the cluster has no price; give one with --price");
  }
  bool offloads = options.choices.offload != std::vector{graph::Offload::kNone};
  for (const Plan& plan : options.given) {
    offloads = offloads || plan.offload != graph::Offload::kNone;
  }
  if (offloads && !site.host.Value("bytes_per_gpu").has_value()) {
    return InvalidArgument(
        "--offload: the cluster has no host memory; its file needs bytes_per_gpu in a "
        "[host_memory] table, as in prism presets h100-8x");
  }
  return OkStatus();
}

}  // namespace prism::launch
