// A graph → a GOAL schedule of one iteration: work is calc on the cpu of its stream, collectives
// become messages (slicer/tasks/expand_collectives.h), and each communicator becomes a tag. A
// communicator named "tag 7" (slicer/import/goal) keeps that number.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "graph/base/status.h"
#include "slicer/export/exporter.h"

namespace prism::slicer {

enum class GoalForm { kText, kBinary };

// Receives the bytes of a file piece by piece.
using GoalSink = std::function<Status(std::string_view bytes)>;

// Every duration must be fixed. Writes one file, rank by rank.
Result<ExportResult> ExportGoal(const graph::Graph& graph, const std::string& path, GoalForm form);

// The same to anywhere.
Result<ExportResult> WriteGoal(const graph::Graph& graph, GoalForm form, const GoalSink& sink);

}  // namespace prism::slicer
