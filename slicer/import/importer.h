// Replay formats of other tools → graphs. One folder per format; each reads files that a user
// named, as a stream where the format allows, and returns a graph that validates
// (graph/validate/validate.h), or kBadFile with what is wrong, where (file:line or byte) and what
// to do. What a format leaves open is counted in the notes and listed among the graph's
// assumptions.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "graph/base/status.h"
#include "graph/graph.h"
#include "slicer/tasks/assembly.h"
#include "slicer/tasks/notes.h"

namespace prism::slicer {

struct ImportOptions {
  graph::ClusterSpec cluster;  // what messages and collectives cost
  std::string job_name;        // "": the first file's name without its extension
  int32_t target_gpus = 0;     // 0: as many ranks as the files have
};

struct ImportResult {
  graph::Graph graph;
  Notes notes;
  int64_t bytes_read = 0;
  int64_t tasks = 0;      // read, over all ranks
  std::string gpu;        // that the files name; "": none
  int64_t gpu_bytes = 0;  // of its memory; 0: not stated
  double bubble = 0;      // of a SimAI workload: its pipeline's, as a share of the passes' time
};

// How the tasks of a file are put on streams. The strict policy is tried first; files that would
// stall under it are read again with a looser one, which is counted.
struct ImportPolicy {
  bool serial = true;     // a resource has one task at a time, in the order of the file
  bool buffered = false;  // a wait for a send ends when the send begins, whatever its receiver does
};

struct ImportAttempt {
  Result<ImportResult> result;
  bool stalls = false;  // a looser policy may do
};

Result<ImportResult> ImportByPolicy(
    const std::function<ImportAttempt(const ImportPolicy& policy)>& attempt);

// Changes a rank's tasks as the policy says.
void ApplyPolicy(const ImportPolicy& policy, TaskGraph* tasks, Notes* notes);

// The end of an attempt: the graph with its assumptions, or kBadFile with the first faults of a
// graph that cannot run. `file` for messages.
ImportAttempt FinishImport(GraphAssembly assembly,
                           const ImportOptions& options,
                           ImportResult result,
                           const std::string& file);

}  // namespace prism::slicer
