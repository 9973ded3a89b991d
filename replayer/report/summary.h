// The numbers of a run as plain structs: the one place that computes them. Writers beside it
// (json.h, csv.h, text.h) only print. Nothing here knows of processes, machines or paths, so the
// files written from it are byte-identical for any number of processes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "graph/base/ids.h"
#include "graph/base/time.h"
#include "graph/graph.h"
#include "replayer/engine/replay_result.h"
#include "replayer/report/imbalance.h"

namespace prism::replayer {

// Mean over ranks, as fractions of the iteration time; sums to 1.
struct TimeShares {
  double compute = 0;
  double exposed_comm = 0;
  double bubble = 0;
  double idle = 0;
};

struct PeakMemory {
  Rank rank;  // largest device_bytes, ties to the lowest rank
  int64_t allocated_bytes = 0;
  int64_t reserved_bytes = 0;
  int64_t device_bytes = 0;

  // Graphs of other tools' traces hold no memory; every recorded rank has a context at least.
  [[nodiscard]] bool is_known() const { return device_bytes > 0; }
};

struct GraphNumbers {
  int64_t ops = 0;  // of all ranks in one iteration
  int64_t roles = 0;
  int64_t communicators = 0;
  int64_t bytes = 0;  // of the graph file
};

// Something that makes the iteration longer than its compute, with who is to blame.
struct Bottleneck {
  double share = 0;  // of the iteration time, mean over ranks
  std::string text;
};

// Iterations that do something else than the steady one, of one kind.
struct OddIteration {
  std::string kind;
  int64_t count = 0;              // that were seen
  std::optional<double> seconds;  // of one; null: it could not be timed
  std::optional<int64_t> every;   // so many iterations there is one; null: not known
  double share = 0;               // of all iterations
  double added_s = 0;             // to the mean iteration
};

// A part of a program without iterations: a range that it names, or what is outside of such.
struct Phase {
  std::string name;
  int64_t count = 0;  // ranges of that name
  double seconds = 0;
};

struct Summary {
  graph::JobSpec job;
  std::string cluster;
  std::string gpu;
  int32_t gpus_per_node = 0;
  std::string device = "virtual";
  std::optional<double> device_scale;  // null on the virtual device
  double iteration_time_s = 0;
  double iteration_time_low_s = 0;
  double iteration_time_high_s = 0;
  std::optional<double> mean_iteration_time_s;  // with the odd ones; null: some have no known time
  std::vector<OddIteration> odd_iterations;
  std::vector<Phase> phases;                   // of a program without iterations, else empty
  std::optional<double> tokens_per_s;          // null if the sequence length is not known
  std::optional<double> model_params;          // null for a user's program
  std::optional<double> model_tflops_per_gpu;  // likewise
  std::optional<double> mfu;
  std::optional<double> hfu;
  TimeShares breakdown;
  PeakMemory peak_memory;
  std::vector<graph::MemoryClass> peak_classes;  // of the worst rank, largest first
  GraphNumbers graph;
  std::vector<Rank> sandbox_ranks;
  std::vector<graph::Warning> warnings;  // ordered by code
  std::vector<std::string> assumptions;
  std::vector<Bottleneck> bottlenecks;  // at most three, largest first
  std::vector<Imbalance> imbalance;
  int64_t assumed_ranks = 0;  // of a user's program: not recorded, taken to be like their role
};

struct SummaryInput {
  const graph::Graph* graph = nullptr;
  const ReplayResult* result = nullptr;
  DurationNs low_ns = 0;  // of the steady iteration: launch/plan/replay_range.h
  DurationNs high_ns = 0;
  int64_t graph_bytes = 0;
  std::vector<graph::Warning> warnings;  // of the run, added to the graph's
  // Of the run: the graph has the warning "odd_iteration" of them, which falls away if all have a
  // time.
  std::vector<OddIteration> odd_iterations;
  std::vector<Phase> phases;
  // What sandbox ranks ran on; device_scale: the target GPU's times relative to those of the local
  // GPU.
  std::string device = "virtual";
  std::optional<double> device_scale;
};

// Of the first traced rank, in the order in which they begin: "start", up to the first range;
// outermost ranges by name; "between" them; "end". Without ranges: "program".
std::vector<Phase> PhasesOf(const graph::Graph& graph, const ReplayResult& result);

Summary Summarise(const SummaryInput& input);

}  // namespace prism::replayer
