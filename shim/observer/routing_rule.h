// Which of n choices a mixture of experts makes if the scores are not known: a selection (topk,
// argmax, max) from values that no kernel wrote. The rule (environment PRISM_ROUTING) is "uniform",
// every choice equally often within a call, or "zipf:S", choice i in proportion to 1/(i+1)^S,
// several of a row drawn without replacement (shim/observer/zipf_draws.h). Every rank selects
// alike, so that as much is received as is sent within a group.
#pragma once

#include <ATen/core/Tensor.h>

namespace prism::shim {

// Writes the indices that were selected along `axis` of a tensor with `choices` there. Counted as
// "routing_by_rule". False: the output is too large, or has gaps and many elements.
bool WriteRouting(const at::Tensor& indices, int64_t choices, int64_t axis);

}  // namespace prism::shim
