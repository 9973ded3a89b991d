#include "replayer/report/summary.h"

#include <algorithm>
#include <functional>
#include <map>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "graph/base/units.h"
#include "graph/describe.h"
#include "replayer/cost/attention.h"
#include "replayer/engine/meeting.h"
#include "replayer/memory/worst_rank.h"
#include "replayer/network/topology.h"

namespace prism::replayer {
namespace {

// Fraction of the iteration; less prints as 0.0 %.
constexpr double kShownShare = 0.0005;

constexpr std::string_view kOddCode = "odd_iteration";

double Ratio(double part, double whole) {
  return whole > 0 ? part / whole : 0;
}

RankTimes SumOf(const ReplayResult& result) {
  RankTimes sum;
  for (const RankTimes& rank : result.ranks) {
    sum.iteration_ns += rank.iteration_ns;
    sum.compute_ns += rank.compute_ns;
    sum.exposed_comm_ns += rank.exposed_comm_ns;
    sum.bubble_ns += rank.bubble_ns;
    sum.idle_ns += rank.idle_ns;
  }
  return sum;
}

TimeShares MeanBreakdown(const ReplayResult& result) {
  const RankTimes sum = SumOf(result);
  const auto whole = static_cast<double>(sum.iteration_ns);
  return {Ratio(static_cast<double>(sum.compute_ns), whole),
          Ratio(static_cast<double>(sum.exposed_comm_ns), whole),
          Ratio(static_cast<double>(sum.bubble_ns), whole),
          Ratio(static_cast<double>(sum.idle_ns), whole)};
}

void FillMemory(const graph::Graph& graph, Summary* summary) {
  if (graph.ranks.size() == 0) {
    return;
  }
  const Rank worst = WorstRank(graph);
  const graph::MemoryProfile& memory = graph.role_of(worst).memory;
  summary->peak_memory = {worst, memory.peak_allocated, memory.peak_reserved,
                          memory.device_bytes()};
  std::vector<graph::MemoryClass>& classes = summary->peak_classes;
  classes = memory.at_peak;
  for (const graph::MemoryClass& outside : memory.outside) {
    // One line for all communicators of NCCL: "nccl:tp", "nccl:dp", ... are one class here.
    const std::string name = outside.name.substr(0, outside.name.find_first_of(": "));
    const auto same =
        std::ranges::find_if(classes, [&](const auto& entry) { return entry.name == name; });
    if (same == classes.end()) {
      classes.push_back({name, outside.bytes, outside.mark});
    } else {
      same->bytes += outside.bytes;
    }
  }
  std::ranges::stable_sort(classes, [](const auto& a, const auto& b) { return a.bytes > b.bytes; });
}

// The kind of communicator whose transfers take longest, and their time on one member.
std::pair<std::string, DurationNs> LongestTransfers(const graph::Graph& graph,
                                                    const ReplayResult& result) {
  std::map<std::string, DurationNs> longest;
  for (size_t comm = 0; comm < result.communicators.size(); ++comm) {
    DurationNs& entry = longest[graph.strings[graph.communicators.name[comm]]];
    entry = std::max(entry, result.communicators[comm].transfer_ns);
  }
  std::pair<std::string, DurationNs> best;
  for (const auto& [name, duration] : longest) {
    if (duration > best.second) {
      best = {name, duration};
    }
  }
  return best;
}

// The role whose ranks have the most of one part of RankTimes: (name, share of its iteration).
std::pair<std::string, double> WorstRole(const graph::Graph& graph,
                                         const ReplayResult& result,
                                         DurationNs RankTimes::* part) {
  std::pair<std::string, double> worst = {"", -1};
  for (uint32_t rank = 0; rank < graph.ranks.size(); ++rank) {
    const RankTimes& times = result.ranks[rank];
    const double share =
        Ratio(static_cast<double>(times.*part), static_cast<double>(times.iteration_ns));
    if (share > worst.second) {
      worst = {graph.role_of(Rank(rank)).name, share};
    }
  }
  return worst;
}

std::vector<Bottleneck> FindBottlenecks(const graph::Graph& graph,
                                        const ReplayResult& result,
                                        const TimeShares& breakdown) {
  std::vector<Bottleneck> found;
  if (breakdown.exposed_comm >= kShownShare) {
    const auto [name, duration] = LongestTransfers(graph, result);
    found.push_back(
        {breakdown.exposed_comm,
         fmt::format("exposed communication; most transfer time in {} ({} an iteration)", name,
                     FormatDuration(duration))});
  }
  if (breakdown.bubble >= kShownShare) {
    const auto [role, share] = WorstRole(graph, result, &RankTimes::bubble_ns);
    found.push_back({breakdown.bubble,
                     fmt::format("pipeline bubble; most on {} ({:.1f} %)", role, 100 * share)});
  }
  if (breakdown.idle >= kShownShare) {
    const auto [role, share] = WorstRole(graph, result, &RankTimes::idle_ns);
    found.push_back(
        {breakdown.idle,
         fmt::format("idle (no kernel issued, or other ranks late); most on {} ({:.1f} %)", role,
                     100 * share)});
  }
  std::ranges::stable_sort(found, std::ranges::greater{}, &Bottleneck::share);
  return found;
}

std::vector<graph::Warning> MergeWarnings(const std::vector<graph::Warning>& first,
                                          const std::vector<graph::Warning>& second) {
  std::map<std::string, graph::Warning> merged;
  for (const auto* list : {&first, &second}) {
    for (const graph::Warning& warning : *list) {
      const auto [entry, is_new] = merged.try_emplace(warning.code, warning);
      if (!is_new) {
        entry->second.count += warning.count;
      }
    }
  }
  std::vector<graph::Warning> result;
  for (auto& [code, warning] : merged) {
    result.push_back(std::move(warning));
  }
  return result;
}

size_t CountTransfers(const TransferTimes& times) {
  size_t count = 0;
  for (const auto* kind : {&times.collectives, &times.sends}) {
    for (const std::vector<DurationNs>& of_one : *kind) {
      count += of_one.size();
    }
  }
  return count;
}

void FillAssumptions(const graph::Graph& graph, Summary* summary) {
  summary->assumptions = graph.assumptions;
  if (const graph::JobSpec& job = graph.job; job.seq_len > 0 && job.facts.steps_per_iteration > 1) {
    summary->assumptions.push_back(
        fmt::format("tokens a second: each of the {} optimizer steps of an iteration has a global "
                    "batch of its own",
                    job.facts.steps_per_iteration));
  }
  for (std::string& line : MaskAssumptions(graph)) {
    summary->assumptions.push_back(std::move(line));
  }
  for (const graph::Parameter& parameter : graph.cluster.parameters.all()) {
    if (parameter.mark == graph::Mark::kAssumed) {
      summary->assumptions.push_back(fmt::format("{} = {}{} ({})", parameter.key, parameter.value,
                                                 graph::UnitText(parameter), parameter.source));
    }
  }
}

// A graph alone knows only that there are some.
void FillOddIterations(const std::vector<OddIteration>& odd, Summary* summary) {
  summary->odd_iterations = odd;
  constexpr auto kCode = &graph::Warning::code;
  if (!odd.empty() &&
      std::ranges::all_of(odd, [](const auto& kind) { return kind.seconds.has_value(); })) {
    std::erase_if(summary->warnings, [](const auto& warning) { return warning.code == kOddCode; });
    summary->assumptions.push_back(
        "odd iterations: each kind is timed by a replay of its own, of one that was recorded, in "
        "which every iteration is such");
  }
  if (std::ranges::find(summary->warnings, kOddCode, kCode) == summary->warnings.end()) {
    double mean = summary->iteration_time_s;
    for (const OddIteration& kind : odd) {
      mean += kind.added_s;
    }
    summary->mean_iteration_time_s = mean;
  }
}

void FillRates(const graph::Graph& graph, Summary* summary) {
  const graph::JobSpec& job = graph.job;
  const double time = summary->iteration_time_s;
  if (job.seq_len > 0) {
    const double steps = std::max(1, job.facts.steps_per_iteration);  // a global batch each
    summary->tokens_per_s = Ratio(steps * static_cast<double>(job.tokens_per_iteration()), time);
  }
  if (job.user_program) {
    return;
  }
  const double gpu_seconds = time * static_cast<double>(job.parallel.world_size());
  const double peak = graph.cluster.parameters.Value("gpu.peak_bf16_flops");
  const double model_rate = Ratio(graph::ModelFlops(job), gpu_seconds);
  summary->model_params = static_cast<double>(graph::ModelParameters(job.model));
  summary->model_tflops_per_gpu = model_rate * 1e-12;
  summary->mfu = Ratio(model_rate, peak);
  summary->hfu = Ratio(Ratio(graph::HardwareFlops(job), gpu_seconds), peak);
}

}  // namespace

Summary Summarise(const SummaryInput& input) {
  const graph::Graph& graph = *input.graph;
  const ReplayResult& result = *input.result;
  Summary summary;
  summary.job = graph.job;
  summary.cluster = graph.cluster.name;
  summary.gpu = graph.cluster.gpu.name;
  summary.gpus_per_node = graph.cluster.gpus_per_node;
  summary.iteration_time_s = SecondsFromNs(result.steady_iteration_ns());
  summary.iteration_time_low_s = SecondsFromNs(input.low_ns);
  summary.iteration_time_high_s = SecondsFromNs(input.high_ns);
  FillRates(graph, &summary);
  summary.breakdown = MeanBreakdown(result);
  FillMemory(graph, &summary);
  summary.graph = {graph.OpsPerIteration(), static_cast<int64_t>(graph.roles.size()),
                   static_cast<int64_t>(graph.communicators.size()), input.graph_bytes};
  summary.sandbox_ranks = graph.sandbox_ranks;
  summary.device = input.device;
  summary.device_scale = input.device_scale;
  summary.warnings = MergeWarnings(graph.warnings, input.warnings);
  FillAssumptions(graph, &summary);
  summary.phases = input.phases;
  FillOddIterations(input.odd_iterations, &summary);
  if (result.period > 1) {
    summary.assumptions.push_back(fmt::format(
        "iteration time: mean over the {} iterations in which perturbations repeat; the "
        "breakdown is of the last one",
        result.period));
  }
  if (result.transfers != nullptr) {
    summary.assumptions.push_back(
        fmt::format("network = flow: {} transfers between nodes share links; an emulation keeps "
                    "the times that the replay before it gave them",
                    CountTransfers(*result.transfers)));
    summary.assumptions.push_back(
        fmt::format("network shape: {}", NetworkText(graph.cluster.network)));
  }
  summary.bottlenecks = FindBottlenecks(graph, result, summary.breakdown);
  summary.imbalance = FindImbalance(graph, result);
  if (graph.job.user_program) {
    summary.assumed_ranks = std::ranges::count_if(graph.ranks.source, [](graph::RankSource source) {
      return source == graph::RankSource::kRole || source == graph::RankSource::kApproximated;
    });
  }
  return summary;
}

}  // namespace prism::replayer
