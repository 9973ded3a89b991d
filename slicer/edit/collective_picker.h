// Which ops of a graph's roles a CollectiveChoice selects.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "graph/base/status.h"
#include "slicer/edit/program_edit.h"

namespace prism::slicer {

class CollectivePicker {
 public:
  // Fails where the job has no communicator of that name, or no such collective on one.
  static Result<CollectivePicker> Create(const graph::Graph& graph, const CollectiveChoice& choice);

  // `program`: that of the role, or an edited version of it.
  [[nodiscard]] bool Picks(uint32_t role, const graph::Program& program, uint32_t op) const;

 private:
  CollectivePicker() = default;

  std::vector<std::vector<bool>> slots_;  // by role and communicator slot
  std::optional<graph::CollectiveKind> kind_;
};

}  // namespace prism::slicer
