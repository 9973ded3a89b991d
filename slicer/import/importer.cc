#include "slicer/import/importer.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "graph/validate/valid_graph.h"

namespace prism::slicer {
namespace {

// The last part of a path without its extension: "a/ring.goal" → "ring".
std::string StemOf(const std::string& path) {
  const size_t slash = path.find_last_of('/');
  std::string name = slash == std::string::npos ? path : path.substr(slash + 1);
  const size_t dot = name.find('.', 1);
  return dot == std::string::npos ? name : name.substr(0, dot);
}

}  // namespace

Result<ImportResult> ImportByPolicy(
    const std::function<ImportAttempt(const ImportPolicy& policy)>& attempt) {
  ImportAttempt strict = attempt({});
  if (!strict.stalls) {
    return std::move(strict.result);
  }
  for (const ImportPolicy& policy :
       {ImportPolicy{.serial = true, .buffered = true}, ImportPolicy{.serial = false},
        ImportPolicy{.serial = false, .buffered = true}}) {
    ImportAttempt looser = attempt(policy);
    if (looser.result.ok()) {
      return std::move(looser.result);
    }
  }
  return std::move(strict.result);
}

void ApplyPolicy(const ImportPolicy& policy, TaskGraph* tasks, Notes* notes) {
  if (policy.buffered) {
    int64_t buffered = 0;
    for (TaskEdge& edge : tasks->edges) {
      if (!edge.begun && tasks->tasks[edge.on].kind == TaskKind::kSend) {
        edge.begun = true;
        ++buffered;
      }
    }
    notes->Add("waits for a send end when the send begins, because some receivers come too late",
               buffered);
  }
  if (!policy.serial) {
    for (uint32_t task = 0; task < tasks->tasks.size(); ++task) {
      if (tasks->IsSerial(task)) {
        tasks->tasks[task].resource = kNoResource;
        notes->Add(
            "tasks of one cpu or stream run side by side, because they would stall in the order of "
            "the file");
      }
    }
  }
}

ImportAttempt FinishImport(GraphAssembly assembly,
                           const ImportOptions& options,
                           ImportResult result,
                           const std::string& file) {
  const std::string name = options.job_name.empty() ? StemOf(file) : options.job_name;
  result.graph = assembly.Finish(name, options.cluster);
  result.graph.assumptions = result.notes.Lines();
  const graph::Validation validation = graph::Validate(result.graph);
  if (validation.ok()) {
    return {std::move(result)};
  }
  return {BadFile(fmt::format("{}: the job it describes cannot run, {}", file,
                              graph::ShownFaults(validation))),
          validation.faults.front().rule == "stall"};
}

}  // namespace prism::slicer
