// Where things are in a role's program: the inverse of a RolePlan.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "replayer/engine/role_plan.h"

namespace prism::replayer {

struct RoleIndex {
  RolePlan plan;                  // structure only: kernels have no durations
  std::vector<uint32_t> step_of;  // by op: index on its stream; kNone without a stream
  std::vector<std::vector<uint32_t>> call_ops;  // by communicator slot and sequence: op
  std::vector<std::vector<uint32_t>> post_ops;  // by endpoint and sequence: op
  std::map<uint32_t, HostWait> host_waits;      // by op

  RoleIndex(const graph::Graph& graph, uint32_t role);

  [[nodiscard]] const Step& StepOf(uint32_t op) const {
    return plan.streams[plan.program->stream[op]][step_of[op]];
  }

  // The last step of the stream before op `op`; null where the iteration has none.
  [[nodiscard]] const Step* LastBefore(uint16_t stream, uint32_t op) const;
};

// By op: the innermost layer that the program's markers name there; "" outside of all.
std::vector<std::string> LayersOf(const graph::Graph& graph, const graph::Program& program);

}  // namespace prism::replayer
