// `prism bench import`, and the workloads of `prism bench replay --export`.
#include <string>
#include <utility>

#include <fmt/format.h>

#include "launch/bench/bench.h"
#include "launch/process/stop_watch.h"
#include "slicer/export/chakra/chakra_export.h"
#include "slicer/export/goal/goal_export.h"
#include "slicer/import/goal/goal_import.h"

namespace prism::launch {
namespace {

// One import of `bytes`, timed.
Result<BenchCase> TimeImport(const graph::Graph& graph,
                             const std::string& name,
                             const std::string& bytes) {
  slicer::ImportOptions options;
  options.cluster = graph.cluster;
  options.job_name = graph.job.name;
  const StopWatch watch;
  PRISM_ASSIGN_OR_RETURN(const slicer::ImportResult result,
                         slicer::ImportGoalBytes(bytes, name, options));
  const double seconds = watch.Seconds();
  const double cpu_s = watch.CpuSeconds();
  const auto size = static_cast<double>(bytes.size());
  BenchCase line = {"import", name, {}};
  line.metrics = {
      {"bytes", size, "B"},
      {"tasks", static_cast<double>(result.tasks), "tasks"},
      {"seconds", seconds, "s"},
      {"cpu_seconds", cpu_s, "s"},
      {"mb_per_s_per_core", cpu_s > 0 ? size / 1e6 / cpu_s : 0, "MB/s/core"},
      {"roles", static_cast<double>(result.graph.roles.size()), "roles"},
      {"max_rss_bytes", static_cast<double>(MaxResidentBytes()), "B"},
  };
  return line;
}

}  // namespace

BenchResult BenchImport(const BenchWorkload& workload) {
  PRISM_ASSIGN_OR_RETURN(const graph::Graph graph, MakeBenchGraph(workload));
  std::vector<BenchCase> lines;
  for (const auto form : {slicer::GoalForm::kText, slicer::GoalForm::kBinary}) {
    std::string bytes;
    PRISM_RETURN_IF_ERROR(slicer::WriteGoal(graph, form, [&bytes](std::string_view piece) {
                            bytes += piece;
                            return OkStatus();
                          }).status());
    const char* const name = form == slicer::GoalForm::kText ? "goal text" : "goal binary";
    PRISM_ASSIGN_OR_RETURN(
        BenchCase line,
        TimeImport(graph, fmt::format("{} {} ranks {}", workload.name, workload.ranks, name),
                   bytes));
    lines.push_back(std::move(line));
  }
  return lines;
}

Status ExportWorkload(const BenchWorkload& workload,
                      const std::string& format,
                      const std::string& path) {
  PRISM_ASSIGN_OR_RETURN(const graph::Graph graph, MakeBenchGraph(workload));
  if (format == "chakra") {
    return slicer::ExportChakra(graph, path).status();
  }
  return slicer::ExportGoal(graph, path, slicer::GoalForm::kText).status();
}

}  // namespace prism::launch
