// What decides how parameters are stored, reduced and updated. Those of one kind may share a flat
// buffer (grad_buffer.h says why kinds are kept separate).
#pragma once

#include <compare>

#include "launch/trainer/parallel_groups.h"

namespace prism::launch {

// Ordered: buffers are created and reduced in this order on every rank.
struct ParameterKind {
  bool expert = false;             // replicas are those of experts
  bool tied = false;               // reduced over the embedding group
  bool split = false;              // divided over tp; else all tp ranks hold the same values
  bool sequence_parallel = false;  // gradients are partial sums over tp
  bool decay = true;               // weight decay applies

  auto operator<=>(const ParameterKind&) const = default;
};

// The weight of the squared norm of that kind's gradients in the sum over all ranks that have them:
// parameters that are not divided are in it once per tp rank and, if they are not `sharded` over
// their replicas and not experts, once per ep rank; of the two copies of a tied embedding only the
// first stage's counts.
double NormWeight(const ParameterKind& kind, bool sharded, const ParallelGroups& groups);

}  // namespace prism::launch
