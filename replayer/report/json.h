// summary.json: every key of the outside contract, always there, null where not applicable.
#pragma once

#include <string>
#include <vector>

#include "graph/base/json_writer.h"
#include "replayer/report/summary.h"

namespace prism::replayer {

std::string SummaryJson(const Summary& summary);

// "warnings": a list of {code, count, example}, in an object that is open.
void WriteWarnings(const std::vector<graph::Warning>& warnings, JsonWriter* json);

// The same object into an open document.
void WriteSummary(const Summary& summary, JsonWriter* json);

}  // namespace prism::replayer
