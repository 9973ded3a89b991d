// `prism bench graph` and `prism bench replay`.
#include <string>
#include <utility>

#include <fmt/format.h>
#include <malloc.h>

#include "graph/base/check.h"
#include "graph/base/rng.h"
#include "graph/file.h"
#include "graph/rank_classes.h"
#include "graph/validate/validate.h"
#include "launch/bench/bench.h"
#include "launch/inputs/perturbation.h"
#include "launch/inputs/presets.h"
#include "launch/process/stop_watch.h"
#include "replayer/engine/engine.h"
#include "slicer/export/chakra/chakra_export.h"
#include "slicer/export/goal/goal_export.h"
#include "slicer/workloads/workloads.h"

// jemalloc's, where the program is linked to it.
extern "C" [[gnu::weak]] int mallctl(
    const char* name, void* old_value, size_t* old_size, void* new_value, size_t new_size);

namespace prism::launch {
namespace {

// Bytes of the heap that are in use, by the allocator that the program is linked to: with
// jemalloc's, the C library's own heap is empty.
int64_t HeapBytes() {
  if (mallctl != nullptr) {
    uint64_t epoch = 1;
    size_t bytes = 0;
    size_t size = sizeof(bytes);
    PRISM_CHECK_EQ(mallctl("epoch", nullptr, nullptr, &epoch, sizeof(epoch)), 0);  // now
    PRISM_CHECK_EQ(mallctl("stats.allocated", &bytes, &size, nullptr, 0), 0);
    return static_cast<int64_t>(bytes);
  }
  const struct mallinfo2 info = mallinfo2();
  return static_cast<int64_t>(info.uordblks + info.hblkhd);
}

int64_t StoredOps(const graph::Graph& graph) {
  int64_t ops = 0;
  for (const graph::Role& role : graph.roles) {
    ops += role.program.size();
  }
  return ops;
}

double Per(double amount, double of) {
  return of > 0 ? amount / of : 0;
}

// The graph with kernels that all take different times, as if each had been measured: what programs
// have in common can then not be stored once.
graph::Graph WithOwnDurations(graph::Graph graph) {
  Rng rng(0, "bench graph");
  for (graph::Role& role : graph.roles) {
    graph::Program& program = role.program;
    for (uint32_t op = 0; op < program.size(); ++op) {
      if (program.kind[op] == graph::OpKind::kKernel) {
        program.flags[op] |= graph::kDurationFixed;
        program.value.Set(op, program.value[op] + rng.UniformInt(0, program.value[op] / 10));
      }
    }
  }
  return graph;
}

// Sizes of everything, however much of it ops share.
struct GraphBytes {
  double memory = 0;  // on the heap once read, including allocator overhead
  double file = 0;
};

Result<GraphBytes> MeasureBytes(const graph::Graph& graph) {
  const std::string bytes = graph::EncodeGraph(graph);
  const int64_t heap = HeapBytes();
  PRISM_ASSIGN_OR_RETURN(const graph::Graph read, graph::DecodeGraph(bytes, "bench"));
  return GraphBytes{.memory = static_cast<double>(HeapBytes() - heap),
                    .file = static_cast<double>(bytes.size())};
}

std::string CaseName(const BenchWorkload& workload) {
  return fmt::format("{} {} ranks", workload.name, workload.ranks);
}

}  // namespace

Result<graph::Graph> MakeBenchGraph(const BenchWorkload& workload) {
  PRISM_ASSIGN_OR_RETURN(graph::Graph graph, slicer::MakeWorkload(workload.name, workload.ranks));
  PRISM_ASSIGN_OR_RETURN(graph.cluster, LoadCluster("h100-8x"));
  return graph;
}

int64_t MaxResidentBytes() {
  struct rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  return int64_t{usage.ru_maxrss} * 1024;
}

BenchResult BenchGraph(const BenchOptions& options) {
  const BenchWorkload& workload = options.workload;
  const int64_t heap = HeapBytes();
  const StopWatch build;
  PRISM_ASSIGN_OR_RETURN(const graph::Graph graph, MakeBenchGraph(workload));
  const double build_s = build.Seconds();
  const auto held = static_cast<double>(HeapBytes() - heap);
  const auto ops = static_cast<double>(StoredOps(graph));

  const StopWatch encode;
  const std::string bytes = graph::EncodeGraph(graph);
  const double encode_s = encode.Seconds();

  const StopWatch decode;
  PRISM_ASSIGN_OR_RETURN(const graph::Graph decoded, graph::DecodeGraph(bytes, "bench"));
  const double decode_s = decode.Seconds();
  if (decoded != graph) {
    return RunFailed(
        "the decoded graph is not the encoded one; this is a bug in Prism, please report it");
  }

  const StopWatch validate;
  const graph::Validation validation = graph::Validate(graph);
  const double validate_s = validate.Seconds();
  if (!validation.ok()) {
    return RunFailed(
        fmt::format("the synthetic graph is not valid: {}", validation.faults.front().message));
  }

  const StopWatch refine;
  const graph::RankClasses classes =
      graph::RefineRanks(graph, std::vector<uint32_t>(graph.ranks.size(), 0),
                         std::vector<uint32_t>(graph.communicators.size(), 0));
  const double refine_s = refine.Seconds();

  PRISM_ASSIGN_OR_RETURN(const GraphBytes unshared, MeasureBytes(WithOwnDurations(graph)));
  BenchCase result = {"graph", CaseName(workload), {}};
  result.metrics = {
      {"stored_ops", ops, "ops of all roles"},
      {"ops", static_cast<double>(graph.OpsPerIteration()), "ops of all ranks"},
      {"bytes_per_op_memory", Per(held, ops), "B/stored op"},
      {"bytes_per_op_file", Per(static_cast<double>(bytes.size()), ops), "B/stored op"},
      {"bytes_per_op_memory_unshared", Per(unshared.memory, ops),
       "B/stored op, durations drawn one by one"},
      {"bytes_per_op_file_unshared", Per(unshared.file, ops),
       "B/stored op, durations drawn one by one"},
      {"build_seconds", build_s, "s"},
      {"encode_ops_per_s", Per(ops, encode_s), "stored ops/s"},
      {"decode_ops_per_s", Per(ops, decode_s), "stored ops/s"},
      {"validate_ops_per_s", Per(ops, validate_s), "stored ops/s"},
      {"refine_ranks_per_s", Per(workload.ranks, refine_s), "ranks/s"},
      {"classes", static_cast<double>(classes.representative.size()), "classes"},
      {"max_rss_bytes", static_cast<double>(MaxResidentBytes()), "B"},
  };
  return std::vector<BenchCase>{std::move(result)};
}

BenchResult BenchReplay(const BenchOptions& options) {
  const int64_t heap = HeapBytes();
  const StopWatch build;
  PRISM_ASSIGN_OR_RETURN(const graph::Graph graph, MakeBenchGraph(options.workload));
  replayer::ReplayOptions replay;
  replay.iterations = options.iterations;
  replay.threads = options.threads;
  replay.classes = options.classes;
  replay.fold = options.fold;
  for (const std::string& text : options.perturb) {
    PRISM_ASSIGN_OR_RETURN(replayer::Perturbation perturbation,
                           ParsePerturbation({text, ""}, graph.job, graph.cluster, replay));
    replay.perturbations.push_back(std::move(perturbation));
  }
  PRISM_ASSIGN_OR_RETURN(replayer::Engine engine, replayer::Engine::Create(graph, replay, {}));
  const double build_s = build.Seconds();

  const StopWatch run;
  if (!engine.Run()) {
    return RunFailed(fmt::format("the synthetic graph stalls: {}", engine.DescribeStall().front()));
  }
  const double run_s = run.Seconds();
  const double cpu_s = run.CpuSeconds();
  const auto held = static_cast<double>(HeapBytes() - heap);
  const replayer::ReplayResult result = engine.Summarise();
  const auto ops = static_cast<double>(result.rank_ops);
  const auto folded = static_cast<double>(result.folded_ops);
  const auto stored = static_cast<double>(StoredOps(graph));
  const auto file = static_cast<double>(graph::EncodeGraph(graph).size());

  BenchCase line = {"replay", CaseName(options.workload), {}};
  line.metrics = {
      {"ops", ops, "rank-ops"},
      {"seconds", run_s, "s"},
      {"cpu_seconds", cpu_s, "s"},
      {"build_seconds", build_s, "s"},
      {"ops_per_s_per_core", Per(Per(ops, options.threads), run_s), "rank-ops/s/core"},
      {"bytes_per_op_memory", Per(held, Per(ops + folded, options.iterations)),
       "B/rank-op of an iteration"},
      {"bytes_per_op_file", Per(file, stored), "B/stored op"},
      {"max_rss_bytes", static_cast<double>(MaxResidentBytes()), "B"},
      {"stored_ops", stored, "ops of all roles"},
      {"job_ops", static_cast<double>(graph.OpsPerIteration()), "ops of all ranks"},
      {"folded_ops", folded, "rank-ops evaluated in runs"},
      {"classes", static_cast<double>(result.classes), "classes"},
      {"threads", static_cast<double>(options.threads), "threads"},
      {"iteration_seconds", SecondsFromNs(result.steady_iteration_ns()), "virtual s"},
  };
  // Afterwards: what its buffers leave on the heap would count as the replay's.
  if (!options.export_format.empty()) {
    PRISM_RETURN_IF_ERROR(
        options.export_format == "chakra"
            ? slicer::ExportChakra(graph, options.path).status()
            : slicer::ExportGoal(graph, options.path, slicer::GoalForm::kText).status());
  }
  return std::vector<BenchCase>{std::move(line)};
}

}  // namespace prism::launch
