#include "launch/plan/search_report.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "graph/base/intern.h"
#include "graph/base/units.h"
#include "replayer/report/scatter_plot.h"

namespace prism::launch {
namespace {

constexpr double kGib = 1024.0 * 1024 * 1024;
constexpr double kThousand = 1e3;
constexpr double kBillion = 1e9;

double GibOf(int64_t bytes) {
  return static_cast<double>(bytes) / kGib;
}

// Whole numbers; three digits for small ones.
std::string Rounded(double value) {
  constexpr double kWhole = 99.95;
  return value < kWhole ? fmt::format("{:.3g}", value) : fmt::format("{:.0f}", value);
}

std::string Thousands(const std::optional<double>& value) {
  return value.has_value() ? Rounded(*value / kThousand) : "-";
}

// What a GPU and its share of a host have.
struct Capacity {
  explicit Capacity(const PlanEvaluator& evaluator)
      : device_bytes(evaluator.capacity_bytes()), host_bytes(evaluator.host_capacity_bytes()) {}

  [[nodiscard]] int64_t DeviceFree(const EvaluatedPlan& plan) const {
    return device_bytes - plan.memory.device_bytes;
  }
  [[nodiscard]] int64_t HostFree(const EvaluatedPlan& plan) const {
    return host_bytes.value_or(0) - plan.memory.host_bytes;
  }

  int64_t device_bytes;
  std::optional<int64_t> host_bytes;
};

// The plan, the host memory that it takes, and what speaks against it.
std::string PlanText(const EvaluatedPlan& plan, const Capacity& capacity) {
  std::string text = DescribePlan(plan.plan);
  if (plan.plan.offload != graph::Offload::kNone) {
    const int64_t free = capacity.HostFree(plan);
    text += fmt::format(" ({:.1f} GiB of host memory{})", GibOf(plan.memory.host_bytes),
                        free < 0 ? fmt::format(", {:.1f} short", GibOf(-free)) : "");
  }
  text += plan.over_budget ? " (over the budget)" : "";
  text += plan.over_deadline ? " (past the deadline)" : "";
  return text;
}

std::string PlanLine(const EvaluatedPlan& plan, const Capacity& capacity) {
  const int64_t free = capacity.DeviceFree(plan);
  const std::string room = free >= 0 ? fmt::format("{:.1f} free", GibOf(free))
                                     : fmt::format("{:.1f} short", GibOf(-free));
  return fmt::format(
      "{:>7}{:>9.3f}{:>9.3f}-{:<8.3f}{:>7.2f}{:>7.1f}{:>7.1f}{:>9}{:>9}{:>9}"
      "{:>8.1f}{:>13}  {}\n",
      plan.plan.gpus(), plan.time.seconds, plan.interval.low_s, plan.interval.high_s,
      plan.cost.days, 100 * plan.mfu, 100 * plan.hfu, Thousands(plan.cost.gpu_hours),
      Thousands(plan.cost.price_usd), Thousands(plan.cost.energy_kwh),
      GibOf(plan.memory.device_bytes), room, PlanText(plan, capacity));
}

std::string PlanTable(const std::string& title,
                      const std::vector<EvaluatedPlan>& plans,
                      const Capacity& capacity) {
  if (plans.empty()) {
    return "";
  }
  std::string text =
      fmt::format("{}\n{:>7}{:>9}{:>18}{:>7}{:>7}{:>7}{:>9}{:>9}{:>9}{:>8}{:>13}  plan\n", title,
                  "GPUs", "iter, s", "interval, s  ", "days", "MFU, %", "HFU, %", "kGPU-h", "kUSD",
                  "MWh", "GiB", "of memory");
  for (const EvaluatedPlan& plan : plans) {
    text += PlanLine(plan, capacity);
  }
  return text;
}

std::string CountLine(const char* title, int64_t count, const std::string& what) {
  return fmt::format("  {:<11}{:>12}  {}\n", title, FormatCount(count), what);
}

std::string CandidatesText(const SearchOptions& options, const SearchResult& result) {
  const bool open = options.choices.gpus.empty();
  const std::string most = FormatCount(options.choices.max_gpus);
  std::string text = CountLine(
      "candidates", result.candidates,
      "plans to choose from" + (open ? fmt::format(" on up to {} GPUs (--max-gpus)", most) : ""));
  if (result.candidates == 0) {
    text += fmt::format("  no allowed tp x cp x pp x dp is {}\n",
                        open ? fmt::format("a number of whole nodes of up to {} GPUs", most)
                             : "one of the --gpus given");
  }
  return text;
}

// Plans that one of the user's bounds rules out, and how far off the nearest of them is.
std::string BoundText(const Bound& bound, const char* what, const std::string& least) {
  return bound.plans == 0 ? ""
                          : CountLine("rejected", bound.plans,
                                      fmt::format("{}, which take {} at least", what, least));
}

std::string BoundsText(const RuledOut& ruled_out) {
  const auto& [usd, gpu_hours, days] = ruled_out;
  return BoundText(usd, "over the budget", fmt::format("{} kUSD", Thousands(usd.least))) +
         BoundText(gpu_hours, "over the GPU-hours",
                   fmt::format("{} kGPU-h", Thousands(gpu_hours.least))) +
         BoundText(days, "past the deadline",
                   fmt::format("{} days", Rounded(days.least.value_or(0))));
}

std::string CountsText(const SearchOptions& options, const SearchResult& result) {
  std::string text = CandidatesText(options, result);
  for (const auto& [reason, count] : result.rejected) {
    text += CountLine("rejected", count, reason);
  }
  for (const auto& [reason, count] : result.not_modelled) {
    text += CountLine("no model", count, reason);
  }
  const MemoryShortage& shortage = result.shortage;
  if (shortage.plans > 0) {
    text += CountLine("no memory", shortage.plans,
                      fmt::format("short of {:.2f} to {:.2f} GiB at least", GibOf(shortage.least),
                                  GibOf(shortage.most)));
  }
  const MemoryShortage& host = result.host_shortage;
  if (host.plans > 0) {
    text += CountLine("no memory", host.plans,
                      fmt::format("short of {:.2f} to {:.2f} GiB of host memory", GibOf(host.least),
                                  GibOf(host.most)));
  }
  text += BoundsText(result.ruled_out);
  if (result.bounded > 0) {
    text += CountLine("left out", result.bounded,
                      "even their lower bounds are worse than what was found");
  }
  return text + CountLine("evaluated", result.evaluated, "by replay of the whole pipeline");
}

const Plan* AnyPlan(const SearchResult& result) {
  for (const auto* plans : {&result.best, &result.given}) {
    if (!plans->empty()) {
      return &plans->front().plan;
    }
  }
  return nullptr;
}

void WritePlan(const EvaluatedPlan& plan, const Capacity& capacity, JsonWriter* json) {
  const graph::ParallelSizes& sizes = plan.plan.parallel;
  json->BeginObject();
  json->Field("gpus", plan.plan.gpus()).Field("tp", sizes.tp).Field("cp", sizes.cp);
  json->Field("pp", sizes.pp).Field("dp", sizes.dp).Field("ep", sizes.ep).Field("vpp", sizes.vpp);
  json->Field("micro_batch_size", plan.plan.micro_batch_size);
  json->Field("recompute", graph::RecomputeName(plan.plan.recompute));
  json->Field("zero", plan.plan.zero_stage);
  json->Field("sequence_parallel", plan.plan.sequence_parallel);
  json->Field("offload", graph::OffloadName(plan.plan.offload));
  json->Field("iteration_time_s", plan.time.seconds);
  json->Field("iteration_time_low_s", plan.interval.low_s);
  json->Field("iteration_time_high_s", plan.interval.high_s);
  json->Field("days", plan.cost.days).Field("mfu", plan.mfu).Field("hfu", plan.hfu);
  json->Field("gpu_hours", plan.cost.gpu_hours);
  json->OptionalField("usd_per_hour", plan.cost.usd_per_hour);
  json->OptionalField("price_usd", plan.cost.price_usd);
  json->OptionalField("energy_kwh", plan.cost.energy_kwh);
  json->OptionalField("energy_usd", plan.cost.energy_usd);
  json->OptionalField("carbon_kg", plan.cost.carbon_kg);
  json->OptionalField("capital_usd", plan.cost.capital_usd);
  json->Field("fits", plan.fits).Field("worst_stage", plan.memory.stage);
  json->Field("allocated_bytes", plan.memory.allocated_bytes);
  json->Field("reserved_bytes", plan.memory.reserved_bytes);
  json->Field("device_bytes", plan.memory.device_bytes);
  json->Field("free_bytes", capacity.DeviceFree(plan));
  json->Field("host_bytes", plan.memory.host_bytes);
  capacity.host_bytes.has_value() ? json->Field("host_free_bytes", capacity.HostFree(plan))
                                  : json->NullField("host_free_bytes");
  json->Field("over_budget", plan.over_budget).Field("over_deadline", plan.over_deadline);
  json->EndObject();
}

void WriteCounts(const char* key, const std::map<std::string, int64_t>& counts, JsonWriter* json) {
  json->Key(key).BeginObject();
  for (const auto& [reason, count] : counts) {
    json->Field(reason, count);
  }
  json->EndObject();
}

// What a search has found, by the name that files give it.
std::array<std::pair<const char*, const std::vector<EvaluatedPlan>*>, 3> PlansOf(
    const SearchResult& result) {
  return {{{"given", &result.given}, {"best", &result.best}, {"pareto", &result.front}}};
}

std::string CsvNumber(const std::optional<double>& value) {
  return value.has_value() ? fmt::format("{:.6g}", *value) : "";
}

std::string CsvLine(const char* list, const EvaluatedPlan& plan, const Capacity& capacity) {
  const graph::ParallelSizes& sizes = plan.plan.parallel;
  std::string text =
      fmt::format("{},{},{},{},{},{},{},{},{},{},{},{}", list, plan.plan.gpus(), sizes.tp, sizes.cp,
                  sizes.pp, sizes.dp, sizes.ep, sizes.vpp, plan.plan.micro_batch_size,
                  graph::RecomputeName(plan.plan.recompute), plan.plan.zero_stage,
                  plan.plan.sequence_parallel ? "on" : "off");
  text += fmt::format(",{:.9g},{:.9g},{:.9g},{:.6g},{:.6g},{:.6g},{:.9g}", plan.time.seconds,
                      plan.interval.low_s, plan.interval.high_s, plan.cost.days, plan.mfu, plan.hfu,
                      plan.cost.gpu_hours);
  for (const auto& value : {plan.cost.price_usd, plan.cost.energy_kwh, plan.cost.carbon_kg}) {
    text += fmt::format(",{}", CsvNumber(value));
  }
  text += fmt::format(",{},{},{},{},{},{}", plan.memory.allocated_bytes, plan.memory.reserved_bytes,
                      plan.memory.device_bytes, capacity.DeviceFree(plan),
                      graph::OffloadName(plan.plan.offload), plan.memory.host_bytes);
  text +=
      fmt::format(",{},{},{}", plan.fits ? "yes" : "no",
                  capacity.host_bytes.has_value() ? std::to_string(capacity.HostFree(plan)) : "",
                  plan.memory.stage);
  for (const auto& value : {plan.cost.usd_per_hour, plan.cost.energy_usd, plan.cost.capital_usd}) {
    text += fmt::format(",{}", CsvNumber(value));
  }
  return text + "\n";
}

// What one run costs on rented and on owned machines.
std::string OwnerLines(const RunCost& cost) {
  std::string text;
  const auto line = [&](const char* title, const std::optional<double>& value, const char* unit) {
    if (value.has_value()) {
      text += fmt::format("  {:<11}{:>12}  {}\n", title, Thousands(value), unit);
    }
  };
  line("capital", cost.capital_usd, "kUSD of GPUs written off in the best plan's time");
  line("energy", cost.energy_usd, "kUSD for its energy");
  line("carbon", cost.carbon_kg, "t of CO2");
  return text;
}

}  // namespace

std::vector<std::string> OffloadLines(const PlanEvaluator& evaluator, const SearchResult& result) {
  std::vector<std::string> lines;
  for (const auto& [list, plans] : PlansOf(result)) {
    for (const EvaluatedPlan& plan : *plans) {
      if (plan.plan.offload == graph::Offload::kNone) {
        continue;
      }
      for (const std::string& line : evaluator.Assumptions(plan.plan).offload) {
        InternValue(lines, line);
      }
    }
  }
  return lines;
}

std::string WhyNoneIsLeft(const SearchResult& result) {
  if (result.candidates == 0) {
    return "no combination of the allowed sizes makes an allowed number of GPUs";
  }
  std::map<std::string, int64_t> layouts = result.rejected;
  layouts.insert(result.not_modelled.begin(), result.not_modelled.end());
  for (const auto& stage :
       {std::map<std::string, int64_t>{{"over the budget", result.ruled_out.usd.plans},
                                       {"over the GPU-hours", result.ruled_out.gpu_hours.plans},
                                       {"past the deadline", result.ruled_out.days.plans}},
        {{"no host memory", result.host_shortage.plans}},
        {{"no memory", result.shortage.plans}},
        layouts}) {
    const auto most = std::ranges::max_element(
        stage, [](const auto& a, const auto& b) { return a.second < b.second; });
    if (most != stage.end() && most->second > 0) {
      return fmt::format("{} of {}: {}", FormatCount(most->second), FormatCount(result.candidates),
                         most->first);
    }
  }
  return "none was evaluated";
}

std::string SearchText(const PlanEvaluator& evaluator,
                       const SearchOptions& options,
                       const SearchResult& result) {
  const SearchProblem& problem = evaluator.problem();
  const Capacity capacity(evaluator);
  std::string text =
      fmt::format("{} on {}, {}, batch {} of {} tokens, {:.4g} B tokens\n", problem.model.name,
                  problem.cluster.name, problem.framework, problem.global_batch_size,
                  problem.seq_len, problem.tokens / kBillion);
  text += CountsText(options, result);
  text += PlanTable("given", result.given, capacity);
  text += PlanTable(fmt::format("best by {}", NameOf(kObjectiveNames, options.objective)),
                    result.best, capacity);
  text += PlanTable("Pareto front of time and cost", result.front, capacity);
  text += result.best.empty() ? "no plan is left\n" : OwnerLines(result.best.front().cost);
  if (const Plan* plan = AnyPlan(result); plan != nullptr) {
    const PlanEvaluator::AssumptionLines assumed = evaluator.Assumptions(*plan);
    const std::vector<std::string> offload = OffloadLines(evaluator, result);
    for (const auto* lines : {&assumed.framework, &offload, &assumed.costs}) {
      for (const std::string& line : *lines) {
        text += fmt::format("  assumed    {}\n", line);
      }
    }
    text += fmt::format("  assumed    {} parameters of {}: --format json lists them\n",
                        assumed.parameters.size(), problem.cluster.name);
    text += fmt::format(
        "  times are  {}'s; prism run --dry-run has the built-in program's, and what differs\n",
        problem.framework);
  }
  return text;
}

void WriteSearch(const PlanEvaluator& evaluator,
                 const SearchOptions& options,
                 const SearchResult& result,
                 JsonWriter* writer) {
  const SearchProblem& problem = evaluator.problem();
  const Capacity capacity(evaluator);
  JsonWriter& json = *writer;
  json.BeginObject();
  json.Field("model", problem.model.name).Field("cluster", problem.cluster.name);
  json.Field("framework", problem.framework);
  json.Field("global_batch_size", problem.global_batch_size).Field("seq_len", problem.seq_len);
  json.Field("tokens", problem.tokens)
      .Field("objective", NameOf(kObjectiveNames, options.objective));
  json.Field("candidates", result.candidates);
  WriteCounts("rejected", result.rejected, &json);
  WriteCounts("not_modelled", result.not_modelled, &json);
  for (const auto& [key, shortage] : {std::pair("no_memory", result.shortage),
                                      std::pair("no_host_memory", result.host_shortage)}) {
    json.Key(key).BeginObject().Field("plans", shortage.plans);
    json.Field("least_bytes", shortage.least).Field("most_bytes", shortage.most).EndObject();
  }
  const RuledOut& ruled_out = result.ruled_out;
  json.Field("over_budget", ruled_out.usd.plans + ruled_out.gpu_hours.plans);
  json.Field("over_deadline", ruled_out.days.plans);
  json.OptionalField("least_usd_over_budget", ruled_out.usd.least);
  json.OptionalField("least_gpu_hours_over_budget", ruled_out.gpu_hours.least);
  json.OptionalField("least_days_past_deadline", ruled_out.days.least);
  json.Field("left_out", result.bounded).Field("evaluated", result.evaluated);
  for (const auto& [key, plans] : PlansOf(result)) {
    json.Key(key).BeginArray();
    for (const EvaluatedPlan& plan : *plans) {
      WritePlan(plan, capacity, &json);
    }
    json.EndArray();
  }
  json.Key("assumptions").BeginArray();
  if (const Plan* plan = AnyPlan(result); plan != nullptr) {
    const PlanEvaluator::AssumptionLines assumed = evaluator.Assumptions(*plan);
    const std::vector<std::string> offload = OffloadLines(evaluator, result);
    for (const auto* lines : {&assumed.framework, &offload, &assumed.costs, &assumed.parameters}) {
      for (const std::string& line : *lines) {
        json.Value(line);
      }
    }
  }
  json.EndArray().EndObject();
}

std::string SearchJson(const PlanEvaluator& evaluator,
                       const SearchOptions& options,
                       const SearchResult& result) {
  std::string text;
  JsonWriter json(&text);
  WriteSearch(evaluator, options, result, &json);
  return text + "\n";
}

std::string SearchCsv(const PlanEvaluator& evaluator, const SearchResult& result) {
  std::string text =
      "list,gpus,tp,cp,pp,dp,ep,vpp,micro_batch_size,recompute,zero,sequence_parallel,"
      "iteration_time_s,iteration_time_low_s,iteration_time_high_s,days,mfu,hfu,gpu_hours,"
      "price_usd,energy_kwh,carbon_kg,allocated_bytes,reserved_bytes,device_bytes,free_bytes,"
      "offload,host_bytes,fits,host_free_bytes,worst_stage,usd_per_hour,energy_usd,capital_usd\n";
  const Capacity capacity(evaluator);
  for (const auto& [list, plans] : PlansOf(result)) {
    for (const EvaluatedPlan& plan : *plans) {
      text += CsvLine(list, plan, capacity);
    }
  }
  return text;
}

std::string SearchSvg(const PlanEvaluator& evaluator, const SearchResult& result) {
  const SearchProblem& problem = evaluator.problem();
  const bool priced = problem.costs.Value("gpu_hour_usd").value_or(0) > 0;
  std::vector<replayer::ScatterPoint> points;
  const auto add = [&](const EvaluatedPlan& plan, bool marked) {
    points.push_back({plan.cost.days,
                      priced ? MeasureOf(Objective::kCost, plan.cost) : plan.cost.gpu_hours,
                      fmt::format("{} GPUs, {:.2f} days: {}", plan.plan.gpus(), plan.cost.days,
                                  DescribePlan(plan.plan)),
                      marked});
  };
  for (const auto& [list, plans] : PlansOf(result)) {
    for (const EvaluatedPlan& plan : *plans) {
      add(plan, plans == &result.front);
    }
  }
  return replayer::ScatterSvg({fmt::format("{} on {}", problem.model.name, problem.cluster.name),
                               "days", priced ? "USD" : "GPU-hours"},
                              points);
}

}  // namespace prism::launch
