// Profiles of torch.profiler (Kineto), one file per rank → a graph: one step of every rank, with
// the measured times of kernels, host and transfers (step_program.h).
#pragma once

#include <string>
#include <vector>

#include "graph/base/status.h"
#include "slicer/import/importer.h"
#include "slicer/import/kineto/trace_file.h"
#include "slicer/import/source_files.h"

namespace prism::slicer {

// Which part of each profile counts.
struct KinetoChoice {
  std::string range = {};  // name of host ranges that are the steps; "": ProfilerStep#N
  int64_t number = 0;      // of a range, from 1; 0: that of median duration
  int64_t step = -1;       // N of ProfilerStep#N; -1: that of median duration
};

// Profiles as they are in memory.
struct ReadProfiles {
  std::vector<KinetoTrace> traces;
  std::vector<std::string> names;  // of their files
  int64_t bytes = 0;               // of these
  int64_t joined = 0;              // products whose shapes are from an execution trace
};

Result<ImportResult> ImportTraces(const ReadProfiles& profiles,
                                  const ImportOptions& options,
                                  const KinetoChoice& choice);

// Files may be gzipped. Each says which rank it is, and of how many. Execution traces among them
// (execution_trace.h) belong to the profiles in their order. A rank that nobody profiled
// does what the next lower one with a profile does; in a job of options.target_gpus ranks, rank r
// does what r modulo the profiled ones does, and process groups keep their sizes except those on
// the outermost axis, which grow: the cluster says what their collectives cost.
Result<ImportResult> ImportKineto(const std::vector<std::string>& files,
                                  const ImportOptions& options,
                                  const KinetoChoice& choice = {});

// The same from memory.
Result<ImportResult> ImportKinetoBytes(const std::vector<TraceSource>& profiles,
                                       const ImportOptions& options,
                                       const KinetoChoice& choice = {});

}  // namespace prism::slicer
