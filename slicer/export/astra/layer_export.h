// A graph → a text workload of SimAI (slicer/import/astra/workload_file.h), which all its ranks
// run.
//
// What rank 0 does becomes a sequence of compute and collective, which is distributed over the
// places in which SimAI runs them: forward passes first; from the first data-parallel collective
// on, input and weight gradients from the last layer back. SimAI does not wait for what a weight
// gradient starts. Groups are recognised by their ranks: neighbours are model parallel, the rest of
// the job is data parallel, and a part of that is expert parallel.
#pragma once

#include <string>

#include "graph/base/status.h"
#include "slicer/export/exporter.h"

namespace prism::slicer {

// Every duration must be fixed.
Result<ExportResult> ExportSimAi(const graph::Graph& graph, const std::string& path);

// The same as text.
Result<std::string> SimAiText(const graph::Graph& graph, ExportResult* result);

}  // namespace prism::slicer
