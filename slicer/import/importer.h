// Replay formats of others → graphs. One folder a format; each reads files that a user named, in a
// stream where the format allows, and gives a graph that validates (graph/validate.h) or says with
// kBadFile what is wrong, where (file:line or byte) and what to do. What a format leaves open is
// counted in the notes and stands among the graph's assumptions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graph/base/status.h"
#include "graph/graph.h"
#include "slicer/tasks/assembly.h"
#include "slicer/tasks/notes.h"

namespace prism::slicer {

struct ImportOptions {
  graph::ClusterSpec cluster;  // what messages and collectives cost
  std::string job_name;        // "" the first file's name without its ending
  int32_t target_gpus = 0;     // 0: as many ranks as the files have
};

struct ImportResult {
  graph::Graph graph;
  Notes notes;
  int64_t bytes_read = 0;
  int64_t tasks = 0;  // read, over all ranks
};

// The last part of a path without its ending: "a/ring.goal" → "ring".
std::string StemOf(const std::string& path);

// Finishes an import: the graph with its assumptions. kBadFile with the first faults of a graph
// that cannot run. `file` for messages.
Result<ImportResult> FinishImport(GraphAssembly assembly,
                                  const ImportOptions& options,
                                  ImportResult result,
                                  const std::string& file);

}  // namespace prism::slicer
