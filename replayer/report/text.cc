#include "replayer/report/text.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include <fmt/format.h>

#include "graph/base/time.h"
#include "graph/base/units.h"
#include "graph/describe.h"
#include "graph/warning_codes.h"

namespace prism::replayer {
namespace {

// One word of a command line, to be pasted into a shell.
std::string ShellWord(const std::string& text) {
  constexpr std::string_view kPlain =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789/._-+=:,@%";
  if (text.find_first_not_of(kPlain) == std::string::npos) {
    return text;
  }
  std::string word = "'";
  for (const char c : text) {
    word += c == '\'' ? "'\\''" : std::string(1, c);
  }
  return word + "'";
}

constexpr double kGiBDouble = 1024.0 * 1024.0 * 1024.0;
constexpr size_t kShownClasses = 6;
constexpr size_t kShownBottlenecks = 3;
constexpr size_t kShownWarnings = 3;
constexpr size_t kShownImbalances = 2;
constexpr size_t kShownOddKinds = 4;
constexpr size_t kShownPhases = 6;

bool ComesFirst(const graph::Warning& warning) {
  return graph::IsShownFirst(warning.code);
}

double GiB(int64_t bytes) {
  return static_cast<double>(bytes) / kGiBDouble;
}

std::string JobLine(const Summary& summary) {
  const graph::JobSpec& job = summary.job;
  const int64_t gpus = job.parallel.world_size();
  const std::string parameters =
      summary.model_params
          ? fmt::format(", {} parameters", FormatApproximate(*summary.model_params))
          : std::string();
  return fmt::format("{}{} on {} × {} ({})\n", job.name, parameters, FormatCount(gpus), summary.gpu,
                     summary.cluster);
}

// The batch of a user's program is not known.
std::string LayoutLine(const Summary& summary) {
  const graph::JobSpec& job = summary.job;
  std::string text = "  layout            " + graph::LayoutText(job);
  if (job.seq_len > 0) {
    text += fmt::format("; batch {} × {} tokens, {} a rank", FormatCount(job.global_batch_size),
                        FormatCount(job.seq_len), FormatCounted(job.microbatches(), "micro-batch"));
  }
  return text + "\n";
}

// A line for each kind, and the mean with them.
std::string OddLines(const Summary& summary) {
  std::string text;
  for (size_t i = 0; i < std::min(kShownOddKinds, summary.odd_iterations.size()); ++i) {
    const OddIteration& odd = summary.odd_iterations[i];
    const std::string often = odd.every ? fmt::format("every {}", *odd.every)
                                        : fmt::format("{} seen", FormatCount(odd.count));
    text += fmt::format("  {:<18}{:<11} {:<10} ", i == 0 ? "odd iterations" : "", odd.kind, often);
    text += odd.seconds ? fmt::format("{:.{}f} s, adds {:.{}f} s an iteration\n", *odd.seconds,
                                      TimeDecimals(*odd.seconds), odd.added_s,
                                      TimeDecimals(std::abs(odd.added_s)))
                        : "not timed\n";
  }
  if (const auto& mean = summary.mean_iteration_time_s; mean && !text.empty()) {
    text += fmt::format("  mean with these   {:.{}f} s\n", *mean, TimeDecimals(*mean));
  }
  return text;
}

std::string PhaseLines(const Summary& summary) {
  std::string text;
  for (size_t i = 0; i < std::min(kShownPhases, summary.phases.size()); ++i) {
    const Phase& phase = summary.phases[i];
    text += fmt::format("  {:<18}{:.{}f} s  {}{}\n", i == 0 ? "phases" : "", phase.seconds,
                        TimeDecimals(phase.seconds), phase.name,
                        phase.count > 1 ? fmt::format(" × {}", phase.count) : "");
  }
  if (summary.phases.size() > kShownPhases) {
    text += fmt::format("  {:<18}{} more\n", "", summary.phases.size() - kShownPhases);
  }
  return text;
}

std::string RateLines(const Summary& summary) {
  const int decimals = TimeDecimals(summary.iteration_time_s);
  std::string text = fmt::format(
      "  {:<18}{:.{}f} s  ({:.{}f} to {:.{}f} s by the model's spread)\n",
      summary.phases.empty() ? "iteration time" : "program time", summary.iteration_time_s,
      decimals, summary.iteration_time_low_s, decimals, summary.iteration_time_high_s, decimals);
  if (const int32_t steps = summary.job.facts.steps_per_iteration; steps > 1) {
    const double each = summary.iteration_time_s / steps;
    text +=
        fmt::format("                    of {} steps that take turns, {:.{}f} s each on average\n",
                    steps, each, TimeDecimals(each));
  }
  text += OddLines(summary) + PhaseLines(summary);
  text += summary.tokens_per_s
              ? fmt::format("  throughput        {} tokens/s",
                            FormatCount(static_cast<int64_t>(*summary.tokens_per_s)))
              : std::string("  throughput        unknown");
  if (summary.mfu) {
    text += fmt::format(", {:.1f} TFLOP/s/GPU, MFU {:.1f} %, HFU {:.1f} %",
                        *summary.model_tflops_per_gpu, 100 * *summary.mfu, 100 * *summary.hfu);
  }
  if (summary.device_scale) {
    text += fmt::format("\n  device            {}; times × {:g} for the target's GPU",
                        summary.device, *summary.device_scale);
  }
  const TimeShares& parts = summary.breakdown;
  text += fmt::format(
      "\n  breakdown         compute {:.1f} %, exposed comm {:.1f} %, bubble {:.1f} %, idle {:.1f} "
      "%\n",
      100 * parts.compute, 100 * parts.exposed_comm, 100 * parts.bubble, 100 * parts.idle);
  return text;
}

std::string MemoryLines(const Summary& summary) {
  const PeakMemory& peak = summary.peak_memory;
  if (!peak.is_known()) {
    return "  peak memory       unknown (the graph has no memory)\n";
  }
  std::string text = fmt::format(
      "  peak memory       rank {}: {:.2f} GiB on the device ({:.2f} allocated, {:.2f} "
      "reserved)\n",
      peak.rank.value(), GiB(peak.device_bytes), GiB(peak.allocated_bytes),
      GiB(peak.reserved_bytes));
  std::vector<std::string> parts;
  for (size_t i = 0; i < std::min(kShownClasses, summary.peak_classes.size()); ++i) {
    parts.push_back(
        fmt::format("{} {:.2f}", summary.peak_classes[i].name, GiB(summary.peak_classes[i].bytes)));
  }
  if (!parts.empty()) {
    text += fmt::format("                    {} GiB\n", fmt::join(parts, ", "));
  }
  return text;
}

std::string TailLines(const Summary& summary, const TextOptions& options) {
  std::string text;
  for (size_t i = 0; i < std::min(kShownBottlenecks, summary.bottlenecks.size()); ++i) {
    const Bottleneck& bottleneck = summary.bottlenecks[i];
    text += fmt::format("  {:<18}{:.1f} % {}\n", i == 0 ? "bottlenecks" : "",
                        100 * bottleneck.share, bottleneck.text);
  }
  for (size_t i = 0; i < std::min(kShownImbalances, summary.imbalance.size()); ++i) {
    const Imbalance& uneven = summary.imbalance[i];
    text += fmt::format("  {:<18}{:.2f} in {}: rank {} computes {}, the mean {}{}\n",
                        i == 0 ? "imbalance" : "", uneven.ratio, uneven.communicator,
                        uneven.slowest.value(), FormatDuration(uneven.largest_ns),
                        FormatDuration(uneven.mean_ns),
                        uneven.is_straggler ? "; a straggler, the others are alike" : "");
  }
  if (summary.assumed_ranks > 0) {
    text += fmt::format("  assumed alike     {} of {} ranks: not recorded, like their role's\n",
                        FormatCount(summary.assumed_ranks),
                        FormatCount(summary.job.parallel.world_size()));
  }
  const GraphNumbers& graph = summary.graph;
  text += fmt::format("  graph             {}, {}, {}, {}\n", FormatCounted(graph.ops, "op"),
                      FormatCounted(graph.roles, "role"),
                      FormatCounted(graph.communicators, "communicator"), FormatBytes(graph.bytes));
  text += WarningLines(summary.warnings);
  text += fmt::format(
      "  assumptions       {}, {}\n",
      FormatCounted(static_cast<int64_t>(summary.assumptions.size()), "number"),
      options.output_folder.empty() ? "which --format json lists" : "listed in summary.json");
  if (!options.wall.empty()) {
    text += fmt::format("  wall time         {}\n", options.wall);
  }
  if (!options.output_folder.empty()) {
    text += fmt::format("  files             {}\n", options.output_folder);
  }
  if (options.trace_bytes > 0) {
    text += fmt::format("  trace             {}/trace.pftrace, {}; open it in ui.perfetto.dev\n",
                        options.output_folder, FormatBytes(options.trace_bytes));
  }
  if (!options.output_folder.empty() && summary.peak_memory.is_known()) {
    text += fmt::format("  next              prism mem {} --rank {}\n",
                        ShellWord(options.output_folder + "/graph.prism"),
                        summary.peak_memory.rank.value());
  }
  return text;
}

}  // namespace

int TimeDecimals(double seconds) {
  constexpr double kFew = 0.01;
  constexpr int kMaxDecimals = 9;
  int decimals = 4;
  for (double limit = kFew; seconds < limit && decimals < kMaxDecimals; limit /= 10) {
    ++decimals;
  }
  return decimals;
}

int FineDecimals(double seconds) {
  constexpr int kMore = 2;
  return TimeDecimals(seconds) + kMore;
}

std::string FineSeconds(double seconds) {
  return fmt::format("{:.{}f} s", seconds, FineDecimals(seconds));
}

std::string WarningLines(std::vector<graph::Warning> warnings) {
  if (warnings.empty()) {
    return "  warnings          none\n";
  }
  std::ranges::stable_sort(warnings, [](const auto& a, const auto& b) {
    return ComesFirst(a) != ComesFirst(b) ? ComesFirst(a) : a.count > b.count;
  });
  std::string text;
  for (size_t i = 0; i < std::min(kShownWarnings, warnings.size()); ++i) {
    const graph::Warning& warning = warnings[i];
    text +=
        fmt::format("  {:<18}{} × {}{}{}\n", i == 0 ? "warnings" : "", FormatCount(warning.count),
                    warning.code, warning.example.empty() ? "" : ": ", warning.example);
  }
  if (warnings.size() > kShownWarnings) {
    const size_t more = warnings.size() - kShownWarnings;
    text += fmt::format("  {:<18}{} more kind{}\n", "", more, more == 1 ? "" : "s");
  }
  return text;
}

std::string SummaryText(const Summary& summary, const TextOptions& options) {
  return JobLine(summary) + LayoutLine(summary) + RateLines(summary) + MemoryLines(summary) +
         TailLines(summary, options);
}

}  // namespace prism::replayer
