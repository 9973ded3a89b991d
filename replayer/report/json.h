// summary.json: every key of the outside contract, always present, null where not applicable.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "graph/base/json_writer.h"
#include "replayer/report/summary.h"

namespace prism::replayer {

std::string SummaryJson(const Summary& summary);

// "job": what is run, in an object that is open. `model_params`: nothing for a user's program.
void WriteJob(const graph::JobSpec& job, std::optional<double> model_params, JsonWriter* json);

// "peak_memory", in an object that is open.
void WritePeakMemory(const PeakMemory& peak, JsonWriter* json);

// "warnings": a list of {code, count, example}, in an object that is open.
void WriteWarnings(const std::vector<graph::Warning>& warnings, JsonWriter* json);

// The same object into an open document.
void WriteSummary(const Summary& summary, JsonWriter* json);

}  // namespace prism::replayer
