#include "launch/plan/job_list.h"

#include <algorithm>
#include <sstream>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "graph/base/file.h"
#include "graph/base/json_writer.h"
#include "graph/base/parse_number.h"
#include "graph/base/units.h"
#include "launch/inputs/toml_reader.h"
#include "launch/plan/model_size.h"

namespace prism::launch {
namespace {

constexpr double kMaxDays = 1e6;
constexpr int64_t kMaxBatch = int64_t{1} << 20;

Result<std::vector<int64_t>> ReadGpus(const std::string& text,
                                      const std::string& job,
                                      int64_t gpus) {
  std::vector<int64_t> numbers;
  std::istringstream list(text);
  for (std::string entry; std::getline(list, entry, ',');) {
    int64_t number = 0;
    if (!ParseNumber(entry, &number) || number < 1 || number > gpus) {
      return InvalidArgument(fmt::format(
          "job '{}': gpus '{}' is not a list of whole numbers from 1 to {}", job, text, gpus));
    }
    numbers.push_back(number);
  }
  std::ranges::sort(numbers);
  numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
  return numbers;
}

// One node, two, four, ..., and all.
std::vector<int64_t> Doublings(int64_t node, int64_t gpus) {
  std::vector<int64_t> numbers;
  for (int64_t number = std::min(node, gpus); number < gpus; number *= 2) {
    numbers.push_back(number);
  }
  numbers.push_back(gpus);
  return numbers;
}

Result<ListedJob> ReadJob(TomlReader* table, const SearchProblem& shared, int64_t gpus) {
  ListedJob job;
  const std::string model = table->Text("model");
  job.name = table->Has("name") ? table->Text("name") : model;
  job.problem = shared;
  PRISM_RETURN_IF_ERROR(
      TakeModel(model, &job.problem).WithContext(fmt::format("job '{}'", job.name)));
  job.problem.global_batch_size =
      table->IntegerOr("global_batch_size", 1, kMaxBatch, job.problem.global_batch_size);
  const bool ratio = table->Has("tokens_per_parameter");
  if (ratio && table->Has("tokens")) {
    return InvalidArgument(fmt::format(
        "job '{}' gives both tokens and tokens_per_parameter; leave one out", job.name));
  }
  const double amount = table->Number(ratio ? "tokens_per_parameter" : "tokens");
  job.problem.tokens = ratio ? TokensOf(job.problem.model, amount) : amount;
  job.deadline_days = table->Number("deadline_days");
  job.gpus = Doublings(shared.cluster.gpus_per_node, gpus);
  if (table->Has("gpus")) {
    PRISM_ASSIGN_OR_RETURN(job.gpus, ReadGpus(table->Text("gpus"), job.name, gpus));
  }
  table->RefuseOthers();
  if (!(amount > 0) || job.problem.global_batch_size < 1) {
    return InvalidArgument(
        fmt::format("job '{}' needs tokens and a global_batch_size above 0", job.name));
  }
  if (!(job.deadline_days > 0 && job.deadline_days <= kMaxDays)) {
    return InvalidArgument(
        fmt::format("job '{}': deadline_days is {}; it must be above 0 and at most 10^6", job.name,
                    job.deadline_days));
  }
  return job;
}

Result<JobSpeeds> SpeedsOf(const ListedJob& job,
                           const std::string& precision,
                           SearchOptions options,
                           MpiSession& session) {
  JobSpeeds speeds = {job, {}};
  options.objective = Objective::kTime;
  options.top = 1;
  PRISM_ASSIGN_OR_RETURN(const PlanEvaluator evaluator,
                         PlanEvaluator::Create(job.problem, precision));
  for (size_t i = 0; i < job.gpus.size(); ++i) {
    options.choices.gpus = {job.gpus[i]};
    PRISM_ASSIGN_OR_RETURN(SearchResult result,
                           Search(evaluator, OptionsOfPart(options, i, job.gpus.size()), session));
    if (!result.best.empty()) {
      speeds.plans.push_back(std::move(result.best.front()));
    }
  }
  if (speeds.plans.empty()) {
    return InvalidArgument(
        fmt::format("job '{}' has no plan on {} GPUs; prism search --gpus tells why", job.name,
                    fmt::join(job.gpus, ", ")));
  }
  return speeds;
}

const char* MeasureName(const SearchOptions& options) {
  return options.objective == Objective::kTime ? "makespan" : "cost";
}

}  // namespace

Result<std::vector<ListedJob>> ReadJobList(const std::string& path,
                                           const SearchProblem& shared,
                                           int64_t gpus) {
  PRISM_ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  PRISM_ASSIGN_OR_RETURN(TomlDocument document, TomlDocument::Parse(text, path));
  TomlReader root = document.root();
  std::vector<ListedJob> jobs;
  for (TomlReader& table : root.TablesOr("job")) {
    Result<ListedJob> job = ReadJob(&table, shared, gpus);
    PRISM_RETURN_IF_ERROR(document.status());
    if (!job.ok()) {
      return BadFile(job.status().message()).WithContext(path);
    }
    jobs.push_back(*std::move(job));
  }
  root.RefuseOthers();
  PRISM_RETURN_IF_ERROR(document.status());
  if (jobs.empty()) {
    return BadFile(fmt::format("{}: contains no [[job]]", path));
  }
  return jobs;
}

Result<JobsAnswer> AllotJobs(const std::vector<ListedJob>& jobs,
                             const std::string& precision,
                             const SearchOptions& options,
                             MpiSession& session) {
  JobsAnswer answer;
  std::vector<DeadlineJob> to_place;
  for (size_t j = 0; j < jobs.size(); ++j) {
    const ListedJob& job = jobs[j];
    PRISM_ASSIGN_OR_RETURN(
        JobSpeeds speeds,
        SpeedsOf(job, precision, OptionsOfPart(options, j, jobs.size()), session));
    DeadlineJob placed = {job.deadline_days, {}};
    for (const EvaluatedPlan& plan : speeds.plans) {
      placed.speeds.push_back(
          {plan.plan.gpus(), plan.cost.days, MeasureOf(Objective::kCost, plan.cost)});
    }
    to_place.push_back(std::move(placed));
    answer.jobs.push_back(std::move(speeds));
  }
  answer.schedule =
      BestSchedule(to_place, options.choices.gpus.front(),
                   options.objective == Objective::kTime ? ScheduleObjective::kMakespan
                                                         : ScheduleObjective::kCost);
  return answer;
}

std::string JobsText(const JobsAnswer& answer, const SearchOptions& options) {
  const ClusterSchedule& schedule = answer.schedule;
  const bool priced = answer.jobs.front().plans.front().cost.price_usd.has_value();
  const char* unit = priced ? "USD" : "GPU-hours";
  std::string text = fmt::format(
      "{} on {} GPUs, least {}\n{:>16}{:>7}{:>9}{:>9}{:>10}{:>9}{:>14}  plan\n",
      FormatCounted(static_cast<int64_t>(answer.jobs.size()), "job"), options.choices.gpus.front(),
      schedule.late_days > 0 ? "lateness" : MeasureName(options), "job", "GPUs", "start, d",
      "end, d", "deadline", "spare, d", unit);
  for (size_t j = 0; j < answer.jobs.size(); ++j) {
    const JobPlacement& at = schedule.jobs[j];
    const EvaluatedPlan& plan = answer.jobs[j].plans[at.speed];
    const double deadline = answer.jobs[j].job.deadline_days;
    text += fmt::format("{:>16}{:>7}{:>9.2f}{:>9.2f}{:>10.2f}{:>9.2f}{:>14.0f}  {}\n",
                        answer.jobs[j].job.name, plan.plan.gpus(), at.start_days, at.end_days,
                        deadline, deadline - at.end_days, MeasureOf(Objective::kCost, plan.cost),
                        DescribePlan(plan.plan));
  }
  text += fmt::format("all end after {:.2f} days, {:.0f} {}\n", schedule.makespan_days,
                      schedule.cost, unit);
  if (schedule.late_days > 0) {
    text += fmt::format("the deadlines cannot be met: at best the latest job is {:.2f} days late\n",
                        schedule.late_days);
  }
  if (!schedule.proven) {
    text +=
        fmt::format("not proven to be the best: only {} placements were tried\n", kMaxPlacements);
  }
  return text +
         "  assumed    a job keeps its GPUs from start to end and uses the fastest plan for them; "
         "jobs do not slow each other down\n";
}

std::string JobsJson(const JobsAnswer& answer, const SearchOptions& options) {
  const ClusterSchedule& schedule = answer.schedule;
  return JsonText([&](JsonWriter& json) {
    json.Field("gpus", options.choices.gpus.front()).Field("objective", MeasureName(options));
    json.Field("feasible", schedule.late_days == 0).Field("late_days", schedule.late_days);
    json.Field("proven", schedule.proven).Field("makespan_days", schedule.makespan_days);
    json.Field("cost", schedule.cost);
    json.Key("jobs").BeginArray();
    for (size_t j = 0; j < answer.jobs.size(); ++j) {
      const JobSpeeds& speeds = answer.jobs[j];
      const JobPlacement& at = schedule.jobs[j];
      json.BeginObject().Field("job", speeds.job.name);
      json.Field("gpus", speeds.plans[at.speed].plan.gpus());
      json.Field("start_days", at.start_days).Field("end_days", at.end_days);
      json.Field("deadline_days", speeds.job.deadline_days);
      json.Field("plan", DescribePlan(speeds.plans[at.speed].plan));
      json.ObjectsField("speeds", speeds.plans, [&](const EvaluatedPlan& plan) {
        json.Field("gpus", plan.plan.gpus()).Field("days", plan.cost.days);
        json.Field("cost", MeasureOf(Objective::kCost, plan.cost));
      });
      json.EndObject();
    }
    json.EndArray();
  });
}

}  // namespace prism::launch
