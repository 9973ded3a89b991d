#include "launch/plan/plan.h"

#include <map>
#include <set>
#include <sstream>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "graph/base/parse_number.h"
#include "graph/validate/limits.h"
#include "launch/inputs/presets.h"

namespace prism::launch {
namespace {

auto KeyOf(const Plan& plan) {
  const graph::ParallelSizes& sizes = plan.parallel;
  return std::make_tuple(plan.gpus(), sizes.tp, sizes.cp, sizes.pp, sizes.vpp, sizes.ep,
                         plan.micro_batch_size, plan.recompute, plan.zero_stage,
                         plan.sequence_parallel, sizes.dp, sizes.etp, plan.offload);
}

Result<int64_t> ParseCount(const std::string& key, const std::string& text) {
  int64_t value = 0;
  if (!ParseNumber(text, &value) || value < 0 || value > graph::kMaxRanks) {
    return InvalidArgument(fmt::format("--plan: {} must be a whole number, not '{}'", key, text));
  }
  return value;
}

Status SetWord(const std::string& key, const std::string& value, Plan* plan) {
  if (key == "sp") {
    if (value != "on" && value != "off") {
      return InvalidArgument(fmt::format("--plan: sp must be on or off, not '{}'", value));
    }
    plan->sequence_parallel = value == "on";
    return OkStatus();
  }
  if (key == "offload") {
    const auto offload = graph::OffloadNamed(value);
    plan->offload = offload.value_or(graph::Offload::kNone);
    return offload.has_value()
               ? OkStatus()
               : InvalidArgument(fmt::format(
                     "--plan: offload must be none, optimizer, activations or all, not '{}'",
                     value));
  }
  if (const auto recompute = graph::RecomputeNamed(value)) {
    plan->recompute = *recompute;
    return OkStatus();
  }
  return InvalidArgument(
      fmt::format("--plan: recompute must be none, selective or full, not '{}'", value));
}

Status SetField(const std::string& key, const std::string& value, Plan* plan) {
  if (key == "recompute" || key == "sp" || key == "offload") {
    return SetWord(key, value, plan);
  }
  graph::ParallelSizes& sizes = plan->parallel;
  const std::map<std::string, int32_t*> degrees = {{"tp", &sizes.tp}, {"cp", &sizes.cp},
                                                   {"pp", &sizes.pp}, {"dp", &sizes.dp},
                                                   {"ep", &sizes.ep}, {"vpp", &sizes.vpp}};
  const auto found = degrees.find(key);
  if (found == degrees.end() && key != "mb" && key != "zero") {
    return InvalidArgument(
        fmt::format("--plan: unknown key '{}'; the keys are tp, cp, pp, dp, ep, vpp, mb, "
                    "recompute, zero, sp, offload",
                    key));
  }
  PRISM_ASSIGN_OR_RETURN(const int64_t count, ParseCount(key, value));
  if (key == "zero") {
    if (count > 3) {
      return InvalidArgument(fmt::format("--plan: zero must be 0 to 3, not {}", count));
    }
    plan->zero_stage = static_cast<int32_t>(count);
    return OkStatus();
  }
  if (count < 1) {
    return InvalidArgument(fmt::format("--plan: {} must be at least 1", key));
  }
  if (key == "mb") {
    plan->micro_batch_size = count;
  } else {
    *found->second = static_cast<int32_t>(count);
  }
  return OkStatus();
}

}  // namespace

bool operator<(const Plan& a, const Plan& b) {
  return KeyOf(a) < KeyOf(b);
}

std::string DescribePlan(const Plan& plan) {
  const graph::ParallelSizes& sizes = plan.parallel;
  const std::string experts = sizes.ep > 1 ? fmt::format(", ep {}", sizes.ep) : "";
  const std::string offload = plan.offload == graph::Offload::kNone
                                  ? ""
                                  : fmt::format(", offload {}", graph::OffloadName(plan.offload));
  return fmt::format(
      "tp {}, cp {}, pp {}, dp {}{}, vpp {}, micro-batch {}, recompute {}, ZeRO {}, sequence "
      "parallel {}{}",
      sizes.tp, sizes.cp, sizes.pp, sizes.dp, experts, sizes.vpp, plan.micro_batch_size,
      graph::RecomputeName(plan.recompute), plan.zero_stage, plan.sequence_parallel ? "on" : "off",
      offload);
}

bool IsTooLarge(const graph::ParallelSizes& sizes) {
  int64_t gpus = 1;
  for (const int64_t degree : {sizes.tp, sizes.cp, sizes.pp, sizes.dp}) {
    if (degree > graph::kMaxRanks / gpus) {
      return true;
    }
    gpus *= degree;
  }
  return false;
}

Result<Plan> ParsePlan(const std::string& text) {
  Plan plan;
  plan.zero_stage = 0;
  std::set<std::string> stated;
  std::istringstream fields(text);
  for (std::string field; std::getline(fields, field, ',');) {
    const size_t equals = field.find('=');
    if (equals == std::string::npos) {
      return InvalidArgument(fmt::format("--plan: '{}' is not key=value", field));
    }
    const std::string key = field.substr(0, equals);
    if (!stated.insert(key).second) {
      return InvalidArgument(fmt::format("--plan: '{}' gives {} twice", text, key));
    }
    PRISM_RETURN_IF_ERROR(SetField(key, field.substr(equals + 1), &plan));
  }
  if (stated.empty()) {
    return InvalidArgument("--plan is empty; give one, as in tp=8,pp=35,dp=8");
  }
  if (IsTooLarge(plan.parallel)) {
    return InvalidArgument(
        fmt::format("--plan: '{}' needs more than {} GPUs", text, graph::kMaxRanks));
  }
  return plan;
}

Result<SearchProblem> ProblemOn(const std::string& cluster, const std::string& framework) {
  SearchProblem problem;
  PRISM_ASSIGN_OR_RETURN(problem.cluster, LoadCluster(cluster));
  PRISM_ASSIGN_OR_RETURN(problem.costs, LoadStated(cluster, StatedTable::kCosts));
  PRISM_ASSIGN_OR_RETURN(problem.host, LoadStated(cluster, StatedTable::kHostMemory));
  problem.framework = framework;
  return problem;
}

Status TakeModel(const std::string& model, SearchProblem* problem) {
  PRISM_ASSIGN_OR_RETURN(ModelPreset preset, LoadModel(model));
  problem->model = std::move(preset.model);
  problem->model_assumptions = std::move(preset.assumptions);
  problem->global_batch_size = preset.layout.global_batch_size;
  problem->seq_len = problem->model.seq_len;
  return OkStatus();
}

Plan WithoutIdleZero(Plan plan) {
  plan.zero_stage = plan.parallel.dp * plan.parallel.cp > 1 ? plan.zero_stage : 0;
  return plan;
}

graph::JobSpec JobOf(const SearchProblem& problem, const Plan& plan) {
  graph::JobSpec job;
  job.model = problem.model;
  job.parallel = plan.parallel;
  job.sequence_parallel = plan.sequence_parallel;
  job.micro_batch_size = plan.micro_batch_size;
  job.global_batch_size = problem.global_batch_size;
  job.seq_len = problem.seq_len;
  job.recompute = plan.recompute;
  job.zero_stage = plan.zero_stage;
  return job;
}

double IterationsOf(const SearchProblem& problem) {
  return problem.tokens / static_cast<double>(problem.global_batch_size * problem.seq_len);
}

}  // namespace prism::launch
