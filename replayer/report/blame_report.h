// The critical path, and the slow rank, as text and JSON.
#pragma once

#include <string>

#include "graph/base/json_writer.h"
#include "graph/graph.h"
#include "replayer/blame/blame.h"
#include "replayer/blame/straggler.h"

namespace prism::replayer {

std::string BlameText(const Blame& blame);
void WriteBlame(const Blame& blame, JsonWriter* json);

std::string SymptomsText(const graph::Graph& graph, const Symptoms& symptoms);
void WriteSymptoms(const graph::Graph& graph, const Symptoms& symptoms, JsonWriter* json);

}  // namespace prism::replayer
