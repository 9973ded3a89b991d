// What decides how parameters are stored, reduced and stepped. Those of one kind may share a flat
// buffer (grad_buffer.h says why kinds are kept apart).
#pragma once

#include <compare>

#include "launch/workload/parallel_groups.h"

namespace prism::launch {

// Ordered: buffers are made, and reduced, in this order on every rank.
struct ParameterKind {
  bool expert = false;             // replicas are those of experts
  bool tied = false;               // reduced over the embedding group
  bool split = false;              // divided over tp; else all tp ranks hold the same values
  bool sequence_parallel = false;  // gradients are partial sums over tp
  bool decay = true;               // weight decay applies

  auto operator<=>(const ParameterKind&) const = default;
};

// What the squared norm of gradients of that kind counts in the sum over all ranks that have them:
// parameters that are not divided are in it once per tp rank, and where they are not `sharded` over
// their replicas once per ep rank if they are no experts; of the two copies of a tied embedding
// only the first stage's counts.
double NormWeight(const ParameterKind& kind, bool sharded, const ParallelGroups& groups);

}  // namespace prism::launch
