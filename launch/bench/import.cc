// `prism bench import`, and the workloads of `prism bench replay --export`.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "launch/bench/bench.h"
#include "launch/process/stop_watch.h"
#include "slicer/export/chakra/chakra_export.h"
#include "slicer/export/goal/goal_export.h"
#include "slicer/import/goal/goal_import.h"
#include "slicer/import/kineto/kineto_import.h"

namespace prism::launch {
namespace {

// A profile of torch.profiler of at least so many bytes: steps of 500 launches, each by two ops of
// the framework.
std::string KinetoText(size_t least_bytes) {
  constexpr int kLaunches = 500;
  constexpr const char* kEvent =
      "{{\"ph\": \"X\", \"cat\": \"{}\", \"name\": \"{}\", \"pid\": {}, \"tid\": {},\n    \"ts\": "
      "{}.000, "
      "\"dur\": {}.500,\n    \"args\": {{\n      \"External id\": {}{}\n    }}\n  }}";
  std::string text =
      "{\"distributedInfo\": {\"rank\": 0, \"world_size\": 1},\n\"traceEvents\": [\n";
  int64_t number = 0;
  const auto add = [&](const char* category, std::string_view name, int thread, int64_t begin,
                       int duration, const std::string& more) {
    text += fmt::format(kEvent, category, name, 7, thread, begin, duration, number, more) + ",\n";
  };
  int64_t step = 0;
  for (; text.size() < least_bytes; ++step) {
    const int64_t begin = 1'700'000'000'000'000 + step * kLaunches * 20;
    for (int64_t at = begin; at < begin + kLaunches * 20; at += 20) {
      const std::string correlation = fmt::format(", \"correlation\": {}", ++number);
      add("cpu_op", "aten::linear", 1, at, 15, "");
      add("cpu_op", "aten::addmm", 1, at + 1, 13, ", \"Input Dims\": [[8, 64], [64, 64]]");
      add("cuda_runtime", "cudaLaunchKernel", 1, at + 5, 3, correlation);
      add("kernel", "void at::native::vectorized_elementwise_kernel<4, float>(int, float)", 7,
          at + 10, 9, correlation + ", \"stream\": 7, \"device\": 0, \"grid\": [128, 1, 1]");
    }
    add("user_annotation", fmt::format("ProfilerStep#{}", step), 1, begin, kLaunches * 20 - 1, "");
  }
  text.resize(text.size() - 2);
  return text + "]}";
}

// `import()` of so many bytes, timed.
template <typename Import>
Result<BenchCase> TimeImport(const std::string& name, size_t bytes, const Import& import) {
  const StopWatch watch;
  PRISM_ASSIGN_OR_RETURN(const slicer::ImportResult result, import());
  const double seconds = watch.Seconds();
  const double cpu_s = watch.CpuSeconds();
  const auto size = static_cast<double>(bytes);
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

BenchResult BenchImport(const BenchOptions& bench) {
  const BenchWorkload& workload = bench.workload;
  PRISM_ASSIGN_OR_RETURN(const graph::Graph graph, MakeBenchGraph(workload));
  slicer::ImportOptions options;
  options.cluster = graph.cluster;
  options.job_name = graph.job.name;
  std::vector<BenchCase> lines;
  const auto add = [&](const std::string& name, size_t bytes, const auto& import) -> Status {
    PRISM_ASSIGN_OR_RETURN(BenchCase line, TimeImport(name, bytes, import));
    lines.push_back(std::move(line));
    return OkStatus();
  };
  for (const size_t mb : {16, 128}) {
    const std::string text = KinetoText(mb * 1'000'000);
    PRISM_RETURN_IF_ERROR(add(fmt::format("kineto {} MB", mb), text.size(), [&] {
      return slicer::ImportKinetoBytes({{"profile", text}}, options);
    }));
  }
  for (const auto form : {slicer::GoalForm::kText, slicer::GoalForm::kBinary}) {
    std::string bytes;
    PRISM_RETURN_IF_ERROR(slicer::WriteGoal(graph, form, [&bytes](std::string_view piece) {
                            bytes += piece;
                            return OkStatus();
                          }).status());
    const char* const name = form == slicer::GoalForm::kText ? "goal text" : "goal binary";
    const std::string of = fmt::format("{} {} ranks {}", workload.name, workload.ranks, name);
    PRISM_RETURN_IF_ERROR(
        add(of, bytes.size(), [&] { return slicer::ImportGoalBytes(bytes, of, options); }));
  }
  return lines;
}

}  // namespace prism::launch
