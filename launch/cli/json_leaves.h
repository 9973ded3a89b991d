// A JSON document as its leaves, each with its path, so that summaries of runs can be compared; and
// other readers of summaries.
#pragma once

#include <string>
#include <vector>

#include "graph/base/status.h"
#include "graph/graph.h"

namespace prism::launch {

// One number, text or null of a JSON document, in the document's order.
struct JsonLeaf {
  std::string path;  // "job.tp", "warnings[odd_iteration].count", "assumptions[gpu.sm_count]"
  std::string text;  // as written in JSON: 8, "tp", null
  bool is_number = false;
  double number = 0;
};

// Every leaf of a document; kBadFile when it is not JSON. `where` is the file's name for messages.
Result<std::vector<JsonLeaf>> FlattenJson(const std::string& text, const std::string& where);

// The warnings of a summary.json; kBadFile when it is not one.
Result<std::vector<graph::Warning>> WarningsOfSummary(const std::string& text,
                                                      const std::string& where);

}  // namespace prism::launch
