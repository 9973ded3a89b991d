// The parts of Validate, one file each: validate_tables.cc (columns, ids, tables),
// validate_matching.cc (collectives, sends and receives, markers), validate_execution.cc (nothing
// waits in a circle). Private to graph/.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "graph/graph.h"
#include "graph/validate/validate.h"

namespace prism::graph::internal {

// Counts all faults, keeps the first ones.
class FaultList {
 public:
  explicit FaultList(size_t max_faults) : max_faults_(max_faults) {}

  void Add(const char* rule, std::string message, std::vector<std::pair<Rank, uint32_t>> ops = {}) {
    ++validation_.fault_count;
    if (validation_.faults.size() < max_faults_) {
      validation_.faults.push_back({rule, std::move(message), std::move(ops)});
    }
  }

  [[nodiscard]] bool empty() const { return validation_.fault_count == 0; }

  Validation Take() && { return std::move(validation_); }

 private:
  size_t max_faults_;
  Validation validation_;
};

// Every column, id and slot is in range. The later checks index without bounds checks and must run
// only if this one added no fault.
void CheckTables(const Graph& graph, FaultList& faults);

// Communicators: members are distinct, hold their users, do not overlap within a family.
void CheckCommunicators(const Graph& graph, FaultList& faults);

// Every collective agrees on all members, in number and order.
void CheckCollectives(const Graph& graph, FaultList& faults);

// Every send has its receive with equal bytes, in order.
void CheckPeerTransfers(const Graph& graph, FaultList& faults);

// Every rank has the same iteration markers (named "iteration").
void CheckMarkers(const Graph& graph, FaultList& faults);

// Every rank can execute its program to the end, if sends below that size are buffered.
void CheckExecution(const Graph& graph, int64_t buffered_bytes, FaultList& faults);

}  // namespace prism::graph::internal
