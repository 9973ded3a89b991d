// prism search: the best plans to train a model, by replay of the whole pipeline of each.
#include <algorithm>
#include <charconv>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "graph/base/file.h"
#include "launch/options/presets.h"
#include "launch/process/mpi_session.h"
#include "launch/process/spread.h"
#include "launch/search/framework_style.h"
#include "launch/search/job_list.h"
#include "launch/search/model_size.h"
#include "launch/search/scatter_plot.h"
#include "launch/search/search.h"
#include "launch/search/search_report.h"
#include "launch/search/sweep.h"
#include "launch/verbs/verb.h"

namespace prism::launch {
namespace {

constexpr int64_t kMaxCount = int64_t{1} << 20;

// Whole numbers with commas between them, each from `lowest` on.
template <typename T>
Status ReadList(const VerbArguments& arguments,
                const char* flag,
                int64_t lowest,
                std::vector<T>* list) {
  const std::string text = arguments.Text(flag);
  const char* at = text.data();
  const char* end = at + text.size();
  while (at != end) {
    int64_t value = 0;
    const auto [next, error] = std::from_chars(at, end, value);
    if (error != std::errc() || value < lowest || value > kMaxCount ||
        (next != end && (*next != ',' || next + 1 == end))) {
      return InvalidArgument(
          fmt::format("--{}: '{}' is no list of whole numbers from {} to {}, N,N,...", flag, text,
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
  return text == "any"
             ? OkStatus()
             : InvalidArgument(fmt::format(
                   "--recompute: '{}' is not available; choose any, none, selective, full", text));
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
    return InvalidArgument("--zero: stages are 0 to 3");
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

// Two options that say the same differently.
Status RefuseBoth(const VerbArguments& arguments, const char* one, const char* other) {
  return arguments.Has(one) && arguments.Has(other)
             ? InvalidArgument(fmt::format("--{} and --{} exclude each other", one, other))
             : OkStatus();
}

Result<SearchOptions> ReadOptions(const VerbArguments& arguments) {
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
  if (open && !options.budget_usd.has_value() && !options.budget_gpu_hours.has_value() &&
      !options.deadline_days.has_value()) {
    return InvalidArgument(
        "say what is given: --gpus N (or several, N,M), --budget USD, --gpu-hours H or --deadline "
        "DAYS");
  }
  // What is given bounds one measure; unless the user says otherwise the other one is made small.
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

// Names with commas between them.
Result<std::vector<std::string>> ModelsOf(const VerbArguments& arguments) {
  std::vector<std::string> models;
  std::istringstream text(arguments.Text("model", "gpt3-175b"));
  for (std::string model; std::getline(text, model, ',');) {
    models.push_back(model);
  }
  if (models.empty() || std::find(models.begin(), models.end(), "") != models.end()) {
    return InvalidArgument(
        fmt::format("--model: '{}' names no model, or leaves one out", text.str()));
  }
  return models;
}

// What all jobs of a command line share.
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
    return InvalidArgument("the model's file states no batch: --global-batch-size N");
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

std::string Plot(const SearchProblem& problem, const SearchResult& result) {
  std::vector<ScatterPoint> points;
  const auto add = [&](const EvaluatedPlan& plan, bool marked) {
    points.push_back({plan.cost.days, MeasureOf(Objective::kCost, plan.cost),
                      fmt::format("{} GPUs, {:.2f} days: {}", plan.plan.gpus(), plan.cost.days,
                                  DescribePlan(plan.plan)),
                      marked});
  };
  for (const auto* plans : {&result.given, &result.best}) {
    for (const EvaluatedPlan& plan : *plans) {
      add(plan, false);
    }
  }
  for (const EvaluatedPlan& plan : result.front) {
    add(plan, true);
  }
  const bool priced = problem.costs.Value("gpu_hour_usd").has_value();
  return ScatterSvg({fmt::format("{} on {}", problem.model.name, problem.cluster.name), "days",
                     priced ? "USD" : "GPU-hours"},
                    points);
}

Status WriteFiles(const VerbArguments& arguments,
                  const PlanEvaluator& evaluator,
                  const SearchResult& result) {
  if (arguments.Has("csv")) {
    PRISM_RETURN_IF_ERROR(WriteFileAtomically(arguments.Text("csv"), SearchCsv(evaluator, result)));
  }
  if (arguments.Has("svg")) {
    PRISM_RETURN_IF_ERROR(
        WriteFileAtomically(arguments.Text("svg"), Plot(evaluator.problem(), result)));
  }
  return OkStatus();
}

Result<VerbOutput> RunSweep(const VerbArguments& arguments,
                            const PlanEvaluator& evaluator,
                            const SearchOptions& options,
                            MpiSession& session) {
  PRISM_ASSIGN_OR_RETURN(const Variation variation, ParseVariation(arguments.Text("vary")));
  PRISM_ASSIGN_OR_RETURN(const std::vector<SweepPoint> points,
                         Sweep(evaluator, options, variation, session));
  if (arguments.Has("csv") && session.rank() == 0) {
    const std::string csv = SweepCsv(evaluator, variation, points);
    PRISM_RETURN_IF_ERROR(WriteFileAtomically(arguments.Text("csv"), csv));
  }
  if (arguments.Has("svg") && session.rank() == 0) {
    PRISM_RETURN_IF_ERROR(
        WriteFileAtomically(arguments.Text("svg"), SweepSvg(variation, options, points)));
  }
  VerbOutput output;
  output.text = arguments.format() == OutputFormat::kJson
                    ? SweepJson(evaluator, options, variation, points)
                    : SweepText(evaluator, options, variation, points);
  return output;
}

Result<VerbOutput> RunSizes(const VerbArguments& arguments,
                            const std::vector<PlanEvaluator>& evaluators,
                            const SearchOptions& options,
                            MpiSession& session) {
  for (const char* flag : {"vary", "csv", "svg", "plan"}) {
    if (arguments.Has(flag)) {
      return InvalidArgument(fmt::format("--{} takes one --model", flag));
    }
  }
  std::set<std::string> names;
  for (const PlanEvaluator& evaluator : evaluators) {
    const std::string& name = evaluator.problem().model.name;
    if (!names.insert(name).second) {
      return InvalidArgument(fmt::format("--model: two of the models are called {}", name));
    }
  }
  PRISM_ASSIGN_OR_RETURN(const std::vector<SizedModel> models,
                         SearchSizes(evaluators, options, session));
  VerbOutput output;
  output.text = arguments.format() == OutputFormat::kJson ? SizesJson(evaluators, models, options)
                                                          : SizesText(models, options);
  return output;
}

// What the options ask for that the cluster does not say.
Status CheckSite(const SearchProblem& site, const SearchOptions& options) {
  if (options.budget_usd.has_value() && !site.costs.Value("gpu_hour_usd").has_value()) {
    return InvalidArgument("--budget: the cluster has no price; state one with --price");
  }
  bool offloads = options.choices.offload != std::vector{graph::Offload::kNone};
  for (const Plan& plan : options.given) {
    offloads = offloads || plan.offload != graph::Offload::kNone;
  }
  if (offloads && !site.host.Value("bytes_per_gpu").has_value()) {
    return InvalidArgument(
        "--offload: the cluster states no host memory; its file needs bytes_per_gpu in a "
        "[host_memory] table, as prism presets h100-8x has it");
  }
  return OkStatus();
}

// --jobs: several jobs with deadlines share the GPUs.
Result<VerbOutput> RunJobs(const VerbArguments& arguments, SearchOptions options) {
  for (const char* flag : {"model", "vary", "csv", "svg", "plan", "tokens", "tokens-per-parameter",
                           "deadline", "budget", "gpu-hours", "global-batch-size", "seq-len"}) {
    if (arguments.Has(flag)) {
      return InvalidArgument(fmt::format("--jobs states its jobs itself; leave --{} out", flag));
    }
  }
  if (options.choices.gpus.size() != 1) {
    return InvalidArgument("--jobs needs --gpus N: what the jobs share");
  }
  if (!arguments.Has("objective")) {
    options.objective = Objective::kCost;
  } else if (options.objective == Objective::kEnergy) {
    return InvalidArgument("--jobs: what is made small is time (the makespan) or cost");
  }
  PRISM_ASSIGN_OR_RETURN(const SearchProblem site, ReadSite(arguments));
  PRISM_RETURN_IF_ERROR(CheckSite(site, options));
  PRISM_ASSIGN_OR_RETURN(const std::vector<ListedJob> jobs,
                         ReadJobList(arguments.Text("jobs"), site, options.choices.gpus.front()));
  PRISM_ASSIGN_OR_RETURN(MpiSession session, MpiSession::Start());
  int64_t threads = SpreadThreads(session);
  PRISM_RETURN_IF_ERROR(arguments.ReadInt("threads", 1, 1024, &threads));
  options.threads = static_cast<int>(threads);
  PRISM_ASSIGN_OR_RETURN(const JobsAnswer answer,
                         AllotJobs(jobs, arguments.Text("precision"), options, session));
  VerbOutput output;
  output.text = arguments.format() == OutputFormat::kJson ? JobsJson(answer, options)
                                                          : JobsText(answer, options);
  return output;
}

Result<VerbOutput> Run(const VerbArguments& arguments) {
  for (const char* flag : {"csv", "svg"}) {
    PRISM_RETURN_IF_ERROR(arguments.CheckOutput(flag));
  }
  PRISM_ASSIGN_OR_RETURN(SearchOptions options, ReadOptions(arguments));
  if (arguments.Has("jobs")) {
    return RunJobs(arguments, std::move(options));
  }
  std::vector<PlanEvaluator> evaluators;
  PRISM_ASSIGN_OR_RETURN(const std::vector<std::string> models, ModelsOf(arguments));
  for (const std::string& model : models) {
    PRISM_ASSIGN_OR_RETURN(SearchProblem problem, ReadProblem(arguments, model));
    PRISM_ASSIGN_OR_RETURN(PlanEvaluator made,
                           PlanEvaluator::Create(std::move(problem), arguments.Text("precision")));
    evaluators.push_back(std::move(made));
  }
  const PlanEvaluator& evaluator = evaluators.front();
  PRISM_RETURN_IF_ERROR(CheckSite(evaluator.problem(), options));
  PRISM_ASSIGN_OR_RETURN(MpiSession session, MpiSession::Start());
  int64_t threads = SpreadThreads(session);
  PRISM_RETURN_IF_ERROR(arguments.ReadInt("threads", 1, 1024, &threads));
  options.threads = static_cast<int>(threads);
  if (evaluators.size() > 1) {
    return RunSizes(arguments, evaluators, options, session);
  }
  if (arguments.Has("vary")) {
    return RunSweep(arguments, evaluator, options, session);
  }
  PRISM_ASSIGN_OR_RETURN(const SearchResult result, Search(evaluator, options, session));
  if (session.rank() == 0) {
    PRISM_RETURN_IF_ERROR(WriteFiles(arguments, evaluator, result));
  }
  VerbOutput output;
  output.text = arguments.format() == OutputFormat::kJson ? SearchJson(evaluator, options, result)
                                                          : SearchText(evaluator, options, result);
  return output;
}

std::vector<VerbOption> SearchFlags() {
  static const std::string frameworks =
      fmt::format("whose kernels, schedules and host costs: {}", fmt::join(FrameworkNames(), ", "));
  static const std::string precisions =
      fmt::format("of matrix products: {}", fmt::join(PrecisionNames(), ", "));
  return {
      {"model", "PRESET|FILE,...", "gpt3-175b",
       "what is trained; of several, which is the largest that can be"},
      {"cluster", "PRESET|FILE", "h100-8x", "where; prices and power are those of its [costs]"},
      {"framework", "NAME", "megatron-core", frameworks.c_str()},
      {"precision", "NAME", "the framework's", precisions.c_str()},
      {"gpus", "N,...", "any", "numbers of GPUs"},
      {"budget", "USD", "none", "plans that cost more are out"},
      {"gpu-hours", "H", "none", "plans that take more are out"},
      {"deadline", "DAYS", "none", "plans that take longer are out"},
      {"tokens", "N", "3e11", "to train on"},
      {"tokens-per-parameter", "R", "none",
       "instead: as many times the model's parameters; about 20 is compute-optimal"},
      {"objective", "time|cost|energy", "cost with --deadline, else time", "what is made small"},
      {"price", "USD", "the cluster's", "of one GPU-hour"},
      {"global-batch-size", "N", "the model's", "sequences"},
      {"seq-len", "N", "the model's", "tokens"},
      {"max-gpus", "N", "4096", "where the number of GPUs is open, without --gpus"},
      {"tp", "N,...", "any", "tensor parallel degrees"},
      {"cp", "N,...", "any", "context parallel degrees"},
      {"pp", "N,...", "any", "pipeline stages"},
      {"dp", "N,...", "any", "data parallel degrees"},
      {"ep", "N,...", "any", "expert parallel degrees"},
      {"vpp", "N,...", "any", "model chunks of a stage"},
      {"micro-batch-size", "N,...", "any", "sequences"},
      {"recompute", "NAME", "any", "none, selective, full or any"},
      {"zero", "N,...", "any", "stages 0 to 3 of optimizer sharding"},
      {"sequence-parallel", "on|off|any", "any",
       "activations divided among tp between its regions"},
      {"offload", "NAME", "none",
       "to host memory, as the cluster's [host_memory] states it: optimizer (states), activations "
       "(of layers), all (both), none, or any, which tries each"},
      {"plan", "tp=8,pp=35,...", "none",
       "a plan that is evaluated besides, whatever it is worth: tp, cp, pp, dp, ep, vpp, mb, "
       "recompute, zero, sp, offload; repeatable"},
      {"vary", "KEY:FROM:TO:STEPS", "none",
       "repeat the search with other values of one number of the cluster: a parameter, "
       "gpu.memory_bytes, costs.KEY or host_memory.KEY"},
      {"jobs", "FILE", "none",
       "several jobs with deadlines that share --gpus N: who gets how many, and when, so that all "
       "deadlines hold at the least cost or, with --objective time, the least makespan"},
      {"top", "N", "10", "plans that the answer names"},
      {"exhaustive", "", "off", "evaluate and name every plan that fits"},
      {"threads", "N", "all; one under mpirun", "of each process"},
      {"csv", "FILE", "none", "the plans of the answer"},
      {"svg", "FILE", "none", "the same as a plot of price over days, or over what is varied"},
  };
}

}  // namespace

Verb SearchVerb() {
  Verb verb;
  verb.spec = {
      "search",
      "",
      "the best plans to train a model on a cluster",
      "One of --gpus, --budget, --gpu-hours and --deadline is needed; prism presets lists models "
      "and\n"
      "clusters. mpirun -n N prism search ... spreads the plans; the answer is the same for any "
      "N.\n"
      "\n"
      "  prism search --gpus 1024\n"
      "  prism search --model llama3-70b --cluster h200-8x --deadline 30 --tokens 1e12 --top 3\n"
      "  prism search --model gpt3-13b --gpus 64 --tp 8 --cp 1 --offload any\n"
      "\n"
      "FILE of --jobs holds a table a job:\n"
      "  [[job]]\n"
      "  model = \"gpt3-13b\"        a preset or file\n"
      "  tokens = 3e11             or tokens_per_parameter = 20\n"
      "  deadline_days = 30\n"
      "  name, global_batch_size, gpus = \"64,128\" may be left out\n",
      0,
      0,
      SearchFlags()};
  verb.run = Run;
  return verb;
}

}  // namespace prism::launch
