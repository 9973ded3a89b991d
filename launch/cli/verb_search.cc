// prism search: the best plans to train a model, by replay of the whole pipeline of each.
#include <algorithm>
#include <chrono>
#include <functional>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "graph/base/file.h"
#include "graph/base/units.h"
#include "graph/file.h"
#include "launch/cli/search_arguments.h"
#include "launch/cli/verb.h"
#include "launch/plan/framework_style.h"
#include "launch/plan/job_list.h"
#include "launch/plan/model_size.h"
#include "launch/plan/plan_graph.h"
#include "launch/plan/search.h"
#include "launch/plan/search_report.h"
#include "launch/plan/sweep.h"
#include "launch/process/distribute.h"
#include "launch/process/mpi_session.h"
#include "launch/process/progress.h"

namespace prism::launch {
namespace {

// A search that takes longer says how far it is.
constexpr std::chrono::seconds kSilent(10);

// Progress that the threads of a search report.
class SearchProgress {
 public:
  SearchProgress() { progress_.BeginStage("search", "candidates"); }

  std::function<void(double)> Listener() {
    return [this](double share) {
      const std::lock_guard<std::mutex> lock(mutex_);
      progress_.Update(share);
    };
  }

 private:
  Progress progress_ = Progress("prism search", false, kSilent);
  std::mutex mutex_;
};

// Whether a given plan fits and satisfies the bounds.
bool IsLeft(const EvaluatedPlan& plan) {
  return plan.fits && !plan.over_budget && !plan.over_deadline;
}

bool HasPlan(const SearchResult& result) {
  return !result.best.empty() || std::ranges::any_of(result.given, IsLeft);
}

Status WriteFiles(const SearchArguments& search,
                  const PlanEvaluator& evaluator,
                  const SearchResult& result) {
  if (!search.graph.empty()) {
    PRISM_ASSIGN_OR_RETURN(const graph::Graph graph, GraphOf(evaluator, result.given.front().plan));
    PRISM_RETURN_IF_ERROR(graph::WriteGraph(graph, search.graph));
  }
  if (!search.csv.empty()) {
    PRISM_RETURN_IF_ERROR(WriteFileAtomically(search.csv, SearchCsv(evaluator, result)));
  }
  if (!search.svg.empty()) {
    PRISM_RETURN_IF_ERROR(WriteFileAtomically(search.svg, SearchSvg(evaluator, result)));
  }
  return OkStatus();
}

Result<VerbOutput> RunSweep(const VerbArguments& arguments,
                            const SearchArguments& search,
                            const PlanEvaluator& evaluator,
                            const SearchOptions& options,
                            MpiSession& session) {
  PRISM_ASSIGN_OR_RETURN(const Variation variation, ParseVariation(search.vary));
  PRISM_ASSIGN_OR_RETURN(const std::vector<SweepPoint> points,
                         Sweep(evaluator, options, variation, session));
  if (!search.csv.empty() && session.rank() == 0) {
    const std::string csv = SweepCsv(evaluator, variation, points);
    PRISM_RETURN_IF_ERROR(WriteFileAtomically(search.csv, csv));
  }
  if (!search.svg.empty() && session.rank() == 0) {
    PRISM_RETURN_IF_ERROR(WriteFileAtomically(search.svg, SweepSvg(variation, options, points)));
  }
  VerbOutput output;
  output.text = arguments.as_json() ? SweepJson(evaluator, options, variation, points)
                                    : SweepText(evaluator, options, variation, points);
  if (std::ranges::none_of(points, [](const SweepPoint& point) { return HasPlan(point.result); })) {
    output.gate = GateNotMet("no plan is left at any value of --vary");
  }
  return output;
}

Result<VerbOutput> RunSizes(const VerbArguments& arguments,
                            const std::vector<PlanEvaluator>& evaluators,
                            const SearchOptions& options,
                            MpiSession& session) {
  for (const char* flag : {"vary", "csv", "svg", "plan", "graph"}) {
    if (arguments.Has(flag)) {
      return InvalidArgument(fmt::format("--{} works with one --model only; name one model", flag));
    }
  }
  std::set<std::string> names;
  for (const PlanEvaluator& evaluator : evaluators) {
    const std::string& name = evaluator.problem().model.name;
    if (!names.insert(name).second) {
      return InvalidArgument(fmt::format("--model: two models are called {}; rename one", name));
    }
  }
  PRISM_ASSIGN_OR_RETURN(const std::vector<SizedModel> models,
                         SearchSizes(evaluators, options, session));
  VerbOutput output;
  output.text =
      arguments.as_json() ? SizesJson(evaluators, models, options) : SizesText(models, options);
  if (std::none_of(models.begin(), models.end(),
                   [](const SizedModel& model) { return model.trains(); })) {
    output.gate = GateNotMet("no plan is left for any of the models");
  }
  return output;
}

// --jobs: several jobs with deadlines share the GPUs.
Result<VerbOutput> RunJobs(const VerbArguments& arguments,
                           const SearchArguments& search,
                           SearchOptions options) {
  for (const char* flag :
       {"model", "vary", "csv", "svg", "plan", "graph", "tokens", "tokens-per-parameter",
        "deadline", "budget", "gpu-hours", "global-batch-size", "seq-len", "top", "exhaustive"}) {
    if (arguments.Has(flag)) {
      return InvalidArgument(fmt::format(
          "--{} does not apply with --jobs, whose file describes the jobs; leave it out", flag));
    }
  }
  if (options.choices.gpus.size() != 1) {
    return InvalidArgument("--jobs needs --gpus N, the number of GPUs that the jobs share");
  }
  options.objective = search.asked_objective.value_or(Objective::kCost);
  if (options.objective == Objective::kEnergy) {
    return InvalidArgument("--jobs: --objective must be time (the makespan) or cost");
  }
  PRISM_ASSIGN_OR_RETURN(const SearchProblem site, ReadSite(search));
  PRISM_RETURN_IF_ERROR(CheckSite(site, options));
  PRISM_ASSIGN_OR_RETURN(const std::vector<ListedJob> jobs,
                         ReadJobList(search.jobs, site, options.choices.gpus.front()));
  PRISM_ASSIGN_OR_RETURN(MpiSession session, MpiSession::Start());
  options.threads = search.asked_threads.value_or(DefaultThreads(session));
  SearchProgress progress;
  options.on_progress = progress.Listener();
  PRISM_ASSIGN_OR_RETURN(const JobsAnswer answer,
                         AllotJobs(jobs, search.precision, options, session));
  VerbOutput output;
  output.text = arguments.as_json() ? JobsJson(answer, options) : JobsText(answer, options);
  if (answer.schedule.late_days > 0) {
    output.gate = GateNotMet(fmt::format("the deadlines cannot be met{}",
                                         answer.schedule.proven ? "" : ", as far as was tried"));
  }
  return output;
}

// --graph: exactly one plan, given to the search, is written out.
Status CheckGraph(const SearchArguments& search, const SearchOptions& options) {
  if (search.graph.empty()) {
    return OkStatus();
  }
  if (!search.vary.empty()) {
    return InvalidArgument("--graph writes one plan on one cluster; leave --vary out");
  }
  return options.given.size() == 1
             ? OkStatus()
             : InvalidArgument(fmt::format(
                   "--graph writes one plan, but {} given; give exactly one --plan tp=8,pp=4,...",
                   options.given.empty() ? "none is" : FormatCount(options.given.size()) + " are"));
}

Result<VerbOutput> RunSearch(const VerbArguments& arguments, const SearchArguments& search) {
  for (const char* flag : {"csv", "svg", "graph"}) {
    PRISM_RETURN_IF_ERROR(arguments.CheckOutput(flag));
  }
  PRISM_ASSIGN_OR_RETURN(SearchOptions options, ReadSearchOptions(arguments, search));
  if (!search.jobs.empty()) {
    return RunJobs(arguments, search, std::move(options));
  }
  std::vector<PlanEvaluator> evaluators;
  if (search.models.size() == 1) {
    PRISM_RETURN_IF_ERROR(CheckGraph(search, options));
  }
  for (const std::string& model : search.models) {
    PRISM_ASSIGN_OR_RETURN(SearchProblem problem, ReadProblem(search, model));
    PRISM_ASSIGN_OR_RETURN(PlanEvaluator made,
                           PlanEvaluator::Create(std::move(problem), search.precision));
    evaluators.push_back(std::move(made));
  }
  const PlanEvaluator& evaluator = evaluators.front();
  PRISM_RETURN_IF_ERROR(CheckSite(evaluator.problem(), options));
  PRISM_ASSIGN_OR_RETURN(MpiSession session, MpiSession::Start());
  options.threads = search.asked_threads.value_or(DefaultThreads(session));
  SearchProgress progress;
  options.on_progress = progress.Listener();
  if (evaluators.size() > 1) {
    return RunSizes(arguments, evaluators, options, session);
  }
  if (!search.vary.empty()) {
    return RunSweep(arguments, search, evaluator, options, session);
  }
  PRISM_ASSIGN_OR_RETURN(const SearchResult result, Search(evaluator, options, session));
  if (session.rank() == 0) {
    PRISM_RETURN_IF_ERROR(WriteFiles(search, evaluator, result));
  }
  VerbOutput output;
  output.text = arguments.as_json() ? SearchJson(evaluator, options, result)
                                    : SearchText(evaluator, options, result);
  if (!HasPlan(result)) {
    output.gate = GateNotMet(fmt::format("no plan is left; {}", WhyNoneIsLeft(result)));
  }
  return output;
}

}  // namespace

Verb SearchVerb() {
  return MakeVerb<SearchArguments>(
      {"search", "", "find the best plans to train a model on a cluster",
       "At least one of --gpus, --budget, --gpu-hours and --deadline is needed; prism presets "
       "lists\n"
       "models and clusters. mpirun -n N prism search ... spreads the work; the answer is the "
       "same\n"
       "for any N.\n"
       "\n"
       "  prism search --gpus 1024\n"
       "  prism search --model llama3-70b --cluster h200-8x --deadline 30 --tokens 1e12 --top 3\n"
       "  prism search --model gpt3-13b --gpus 64 --tp 8 --cp 1 --offload any\n"
       "\n"
       "The FILE of --jobs has one table per job:\n"
       "  [[job]]\n"
       "  model = \"gpt3-13b\"        a preset or file\n"
       "  tokens = 3e11             or tokens_per_parameter = 20\n"
       "  deadline_days = 30\n"
       "name, global_batch_size and gpus = \"64,128\" are optional.\n"
       "\n"
       "The exit code is 4 if no plan fits and keeps budget and deadline, or if the deadlines of "
       "--jobs\n"
       "cannot be met.\n",
       0, 0},
      SearchTable(), RunSearch);
}

}  // namespace prism::launch
