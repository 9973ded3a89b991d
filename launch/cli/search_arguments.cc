#include "launch/cli/search_arguments.h"

#include <algorithm>
#include <cstdint>
#include <sstream>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "graph/base/parse_number.h"
#include "graph/job/names.h"
#include "launch/inputs/presets.h"
#include "launch/plan/framework_style.h"
#include "launch/plan/model_size.h"

namespace prism::launch {
namespace {

constexpr int64_t kMaxCount = int64_t{1} << 20;

// Comma-separated whole numbers.
template <typename T>
Kind<std::vector<T>> Numbers(int64_t lowest, int64_t highest = kMaxCount) {
  const auto read = [lowest, highest](std::string_view text, std::vector<T>* list) -> std::string {
    if (text.empty()) {
      return "is empty; give numbers, or leave it out for any";
    }
    for (size_t at = 0; at <= text.size();) {
      const size_t end = std::min(text.find(',', at), text.size());
      int64_t value = 0;
      if (!ParseNumber(text.substr(at, end - at), &value) || value < lowest || value > highest) {
        return fmt::format("'{}' is not a list N,N,... of whole numbers from {} to {}", text,
                           lowest, highest);
      }
      list->push_back(static_cast<T>(value));
      at = end + 1;
    }
    std::sort(list->begin(), list->end());
    list->erase(std::unique(list->begin(), list->end()), list->end());
    return "";
  };
  return {"N,...", read,
          [](const std::vector<T>& list) { return fmt::format("{}", fmt::join(list, ",")); }};
}

Kind<std::vector<std::string>> ModelNames() {
  const auto read = [](std::string_view text, std::vector<std::string>* names) -> std::string {
    std::istringstream rest{std::string(text)};
    for (std::string name; std::getline(rest, name, ',');) {
      names->push_back(name);
    }
    return names->empty() || std::ranges::find(*names, "") != names->end()
               ? fmt::format("'{}' has an empty name; give NAME or NAME,NAME,...", text)
               : "";
  };
  return {"PRESET|FILE,...", read,
          [](const std::vector<std::string>& names) {
            return fmt::format("{}", fmt::join(names, ","));
          },
          /*is_bare=*/false, PresetNames(PresetKind::kModel)};
}

// One of the words, shown as that value.
Kind<std::string> WordOf(std::vector<std::string> words, std::string value_name) {
  Kind<std::string> kind = OneOf(std::move(words));
  kind.value_name = std::move(value_name);
  return kind;
}

// What is to be trained, where, and within which bounds.
std::vector<Option<SearchArguments>> ProblemRows() {
  using S = SearchArguments;
  return {
      {"model", &S::models, ModelNames(),
       "model to train; of several, find the largest that can be trained"},
      {"cluster", &S::cluster, Text("PRESET|FILE", PresetNames(PresetKind::kCluster)),
       "cluster to train on; its [costs] give prices and power"},
      {"framework", &S::framework, Text("NAME", FrameworkNames()),
       fmt::format("framework whose kernels, schedules and host costs apply: {}",
                   fmt::join(FrameworkNames(), ", "))},
      {"precision", &S::precision, Text("NAME", PrecisionNames()),
       fmt::format("precision of matrix products: {}", fmt::join(PrecisionNames(), ", ")),
       "the framework's"},
      {"gpus", At(&S::choices, &PlanChoices::gpus), Numbers<int64_t>(1), "numbers of GPUs", "any"},
      {"budget", &S::budget_usd, NumberAbove0("USD"), "rule out plans that cost more", "none"},
      {"gpu-hours", &S::budget_gpu_hours, NumberAbove0("H"),
       "rule out plans that take more GPU-hours", "none"},
      {"deadline", &S::deadline_days, NumberAbove0("DAYS"), "rule out plans that take longer",
       "none"},
      {"tokens", &S::tokens, NumberAbove0("N"), "tokens to train on", "3e11"},
      {"tokens-per-parameter", &S::tokens_per_parameter, NumberAbove0("R"),
       "instead of --tokens: R times the model's parameters; about 20 is compute-optimal", "none"},
      {"objective", &S::asked_objective, OneOf(kObjectiveNames), "what to minimise",
       "cost with --deadline, else time"},
      {"price", &S::price, NumberAbove0("USD"), "price of one GPU-hour", "the cluster's"},
      {"global-batch-size", &S::global_batch_size, WholeNumber(1, kMaxCount), "sequences",
       "the model's"},
      {"seq-len", &S::seq_len, WholeNumber(1, int64_t{1} << 24), "tokens", "the model's"},
  };
}

// Which plans are tried.
std::vector<Option<SearchArguments>> PlanRows() {
  using S = SearchArguments;
  using C = PlanChoices;
  std::vector<std::string> recompute = AllNames(graph::kRecomputeNames);
  recompute.insert(recompute.begin(), "any");
  Kind<std::string> plan = Text("tp=8,pp=35,...");
  plan.read = [](std::string_view text, std::string* value) {
    *value = text;
    return std::string();  // ParsePlan judges it
  };
  return {
      {"max-gpus", At(&S::choices, &C::max_gpus), WholeNumber(1, kMaxCount),
       "most GPUs to try, without --gpus"},
      {"tp", At(&S::choices, &C::tp), Numbers<int32_t>(1), "tensor-parallel sizes", "any"},
      {"cp", At(&S::choices, &C::cp), Numbers<int32_t>(1), "context-parallel sizes", "any"},
      {"pp", At(&S::choices, &C::pp), Numbers<int32_t>(1), "pipeline stages", "any"},
      {"dp", At(&S::choices, &C::dp), Numbers<int32_t>(1), "data-parallel sizes", "any"},
      {"ep", At(&S::choices, &C::ep), Numbers<int32_t>(1), "expert-parallel sizes", "any"},
      {"vpp", At(&S::choices, &C::vpp), Numbers<int32_t>(1),
       "model chunks per stage (interleaving)", "any"},
      {"micro-batch-size", At(&S::choices, &C::micro_batch_sizes), Numbers<int64_t>(1), "sequences",
       "any"},
      {"recompute", &S::recompute, WordOf(std::move(recompute), "NAME"),
       "none, selective, full or any"},
      {"zero", At(&S::choices, &C::zero), Numbers<int32_t>(0, 3), "ZeRO stages, 0 to 3", "any"},
      {"sequence-parallel", &S::sequence_parallel, WordOf({"any", "on", "off"}, "on|off|any"),
       "sequence parallelism along with tensor parallelism"},
      {"offload", &S::offload, WordOf({"none", "optimizer", "activations", "all", "any"}, "NAME"),
       "offload to host memory (the cluster's [host_memory]): optimizer (its states), activations "
       "(of layers), all (both), none, or any (try each)"},
      {"plan", &S::plans, std::move(plan),
       "also evaluate this plan, however it ranks: tp, cp, pp, dp, ep, vpp, mb, recompute, zero, "
       "sp, offload; sizes default to 1, zero to 0, the rest to none and off; repeatable",
       "none"},
  };
}

// What else is asked, and where the answer goes.
std::vector<Option<SearchArguments>> AnswerRows() {
  using S = SearchArguments;
  return {
      {"graph", &S::graph, Text("FILE"),
       "write the execution graph of the --plan, for prism replay, export, diff and mem", "none"},
      {"vary", &S::vary, Text("KEY:FROM:TO:STEPS"),
       "repeat the search over values of one number of the cluster: a parameter, gpu.memory_bytes, "
       "costs.KEY or host_memory.KEY",
       "none"},
      {"jobs", &S::jobs, Text("FILE"),
       "plan several jobs that share --gpus N: which job gets how many GPUs when, so that all "
       "deadlines are met at the least cost or, with --objective time, the least makespan",
       "none"},
      {"top", &S::top, WholeNumber(1, kMaxCount), "plans to list"},
      {"exhaustive", &S::exhaustive, Switch(), "evaluate and list every plan that fits", "off"},
      {"threads", &S::asked_threads, WholeNumber(1, 1024), "threads per process",
       "all; one under mpirun"},
      {"csv", &S::csv, Text("FILE"), "write the listed plans", "none"},
      {"svg", &S::svg, Text("FILE"), "plot them: price over days, or over the values of --vary",
       "none"},
  };
}

// Refuses two options that specify the same thing in different ways.
Status RefuseBoth(const VerbArguments& arguments, const char* one, const char* other) {
  return arguments.Has(one) && arguments.Has(other)
             ? InvalidArgument(fmt::format("--{} and --{} exclude each other", one, other))
             : OkStatus();
}

}  // namespace

std::vector<Option<SearchArguments>> SearchTable() {
  std::vector<Option<SearchArguments>> table = ProblemRows();
  Append(PlanRows(), &table);
  Append(AnswerRows(), &table);
  return table;
}

Result<SearchOptions> ReadSearchOptions(const VerbArguments& arguments,
                                        const SearchArguments& search) {
  SearchOptions options = search;
  if (const auto recompute = graph::RecomputeNamed(search.recompute)) {
    options.choices.recompute = {*recompute};
  }
  if (search.sequence_parallel != "any") {
    options.choices.sequence_parallel = {search.sequence_parallel == "on"};
  }
  using enum graph::Offload;
  const auto offload = graph::OffloadNamed(search.offload);
  options.choices.offload =
      offload ? std::vector{*offload} : std::vector{kNone, kOptimizer, kActivations, kAll};
  for (const std::string& text : search.plans) {
    PRISM_ASSIGN_OR_RETURN(const Plan plan, ParsePlan(text));
    options.given.push_back(WithoutIdleZero(plan));
  }
  PRISM_RETURN_IF_ERROR(RefuseBoth(arguments, "gpus", "max-gpus"));
  PRISM_RETURN_IF_ERROR(RefuseBoth(arguments, "tokens", "tokens-per-parameter"));
  PRISM_RETURN_IF_ERROR(RefuseBoth(arguments, "top", "exhaustive"));
  if (options.choices.gpus.empty() && !options.budget_usd && !options.budget_gpu_hours &&
      !options.deadline_days) {
    return InvalidArgument(
        "nothing limits the search; give --gpus N (or N,M,...), --budget USD, --gpu-hours H or "
        "--deadline DAYS");
  }
  // A deadline or budget bounds one measure; unless the user says otherwise the other one is
  // minimised.
  options.objective =
      search.asked_objective.value_or(options.deadline_days ? Objective::kCost : Objective::kTime);
  return options;
}

Result<SearchProblem> ReadSite(const SearchArguments& search) {
  PRISM_ASSIGN_OR_RETURN(SearchProblem problem, ProblemOn(search.cluster, search.framework));
  if (search.price) {
    problem.costs.State("gpu_hour_usd", *search.price, "USD/h");
  }
  return problem;
}

Result<SearchProblem> ReadProblem(const SearchArguments& search, const std::string& model) {
  PRISM_ASSIGN_OR_RETURN(SearchProblem problem, ReadSite(search));
  PRISM_RETURN_IF_ERROR(TakeModel(model, &problem));
  problem.global_batch_size = search.global_batch_size.value_or(problem.global_batch_size);
  problem.seq_len = search.seq_len.value_or(problem.seq_len);
  if (problem.global_batch_size < 1) {
    return InvalidArgument("the model's file has no batch size; give --global-batch-size N");
  }
  problem.tokens = search.tokens_per_parameter
                       ? TokensOf(problem.model, *search.tokens_per_parameter)
                       : search.tokens;
  for (const std::string& text : search.plans) {
    PRISM_ASSIGN_OR_RETURN(const Plan plan, ParsePlan(text));
    if (const int32_t stated = plan.zero_stage; stated != WithoutIdleZero(plan).zero_stage) {
      problem.notes.push_back(
          fmt::format("--plan {}: ZeRO {} has no replicas to shard over (dp 1), so it is ZeRO 0",
                      text, stated));
    }
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
