// Which of n choices a mixture of experts makes, where the scores it goes by are not known: a
// selection (topk, argmax, max) of values that no kernel wrote. The rule (environment
// PRISM_ROUTING) is "uniform", every choice as often as any other within a call, or "zipf:S",
// choice i as often as 1/(i+1)^S. Every rank selects alike, so that over a group as much is
// received as is sent.
#pragma once

#include <ATen/core/Tensor.h>

namespace prism::shim {

// Writes the indices that were selected along `axis` of a tensor with `choices` there. Counted as
// "routing_by_rule". False: the output is not dense or too large.
bool WriteRouting(const at::Tensor& indices, int64_t choices, int64_t axis);

}  // namespace prism::shim
