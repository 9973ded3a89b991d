// Proof that a graph can run: see the list at Validate. Lists every fault, as a linter would.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "graph/graph.h"

namespace prism::graph {

struct Fault {
  std::string rule;     // stable, snake_case: "collective_mismatch", "unpaired_send", "stall", ...
  std::string message;  // rank, op index, what it does, and the other side
  std::vector<std::pair<Rank, uint32_t>> ops = {};  // the ops that it names, if any
};

struct ValidateOptions {
  size_t max_faults = 100;     // listed; all are counted
  int64_t buffered_bytes = 0;  // sends below this size do not wait for their receiver
};

struct Validation {
  std::vector<Fault> faults;
  int64_t fault_count = 0;
  std::string needed_buffer;  // of ValidateBuffered: a send that has to be buffered; "" if none has

  [[nodiscard]] bool ok() const { return fault_count == 0; }
};

// Checks: columns agree in length and every id is in range; `dep` points back to an event record;
// communicators that a rank has in one slot do not overlap and hold every rank that uses them;
// every collective has the same kind, bytes, type and root, in the same order, on all members;
// every send has its receive with equal bytes; the iteration markers of all ranks agree; nothing
// waits in a circle (the program of every rank can be executed to its end: an untimed run of all
// classes).
Validation Validate(const Graph& graph, const ValidateOptions& options = {});

}  // namespace prism::graph
