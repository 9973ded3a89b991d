// The measurements behind `prism bench`. Each returns its numbers; verb_bench.cc prints them. Times
// are seconds of the machine's clock.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graph/base/status.h"
#include "graph/graph.h"

namespace prism::launch {

struct BenchMetric {
  std::string name;
  double value = 0;
  std::string unit;
};

// One line of output.
struct BenchCase {
  std::string bench;  // "replay"
  std::string name;   // "gpt3-layer 8192 ranks"
  std::vector<BenchMetric> metrics;
};

using BenchResult = Result<std::vector<BenchCase>>;

// A synthetic job (slicer/workloads/workloads.h).
struct BenchWorkload {
  std::string name = "gpt3-layer";
  int32_t ranks = 8192;
};

// What the command line says; each bench reads what applies to it.
struct BenchOptions {
  BenchWorkload workload;
  int32_t iterations = 1;
  int32_t threads = 1;
  bool classes = true;               // false: every rank is evaluated separately
  bool fold = true;                  // false: every kernel of a run is evaluated
  std::vector<std::string> perturb;  // as --perturb of prism replay
  std::string export_format;         // "goal" or "chakra": also write the workload to `path`
  std::string path;                  // or a graph, instead of the workload; "": none
};

// The time that the shim adds to a kernel launch.
BenchResult BenchDevice(const BenchOptions& options);

// Records through the channel, through the recorder, and through both.
BenchResult BenchRecord(const BenchOptions& options);

// Bytes from one sandbox rank to another on one host; under mpirun or srun over several hosts, also
// between the first two.
BenchResult BenchExchange(const BenchOptions& options);

// Encode, decode, validate and refine one graph.
BenchResult BenchGraph(const BenchOptions& options);

// One replay, and the export that is asked for.
BenchResult BenchReplay(const BenchOptions& options);

// Writes a workload as GOAL and reads it back, as text and as binary.
BenchResult BenchImport(const BenchOptions& options);

// Records rank 0 and those that differ from it of a program at that world size, the built-in one if
// it is empty, and returns what its threads spend between ops (HostCostsText).
Result<std::string> BenchHost(int32_t ranks, const std::vector<std::string>& program);

// The workload on h100-8x.
Result<graph::Graph> MakeBenchGraph(const BenchWorkload& workload);

// The max-min solver with 1,024 flows in flight, and one replay on a separate network: of a graph
// file, or of the workload if there is none.
BenchResult BenchNetwork(const BenchOptions& options);

// GPT-3 175B on 8,192 H100 of h100-8x, batch 1,536; plans are drawn with a seed from those whose
// states fit; rates are per second of CPU time. On one thread: iteration times of 200 plans one by
// one, then memory of the same. On `threads`: 1,000 usual plans (tp in a node, whole sequences) in
// one library call, with time, interval and memory; the complete search.
BenchResult BenchSearch(const BenchOptions& options);

// Highest resident size of this process so far, bytes.
int64_t MaxResidentBytes();

}  // namespace prism::launch
