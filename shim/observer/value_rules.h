// Results of small kernels on which control flow depends, written by rule since no kernel runs:
// constants (fill_, zero_, arange) have their true values; a test on all elements (all, isfinite)
// is true, which is counted; random integers are in their bounds (random_rule.h). Small integer
// results with known inputs are computed (true_results.h); a selection from unknown values follows
// a rule (routing_rule.h), and so does a search for unique ones (distinct_rule.h). Whatever no rule
// covers reads as zero (shim/virtual_device/memory.h): isnan and any are false, found_inf of a
// gradient scaler is 0, a loss is 0. Small integers that an op overwrote unknown are unknown from
// then on (overwritten.h).
#pragma once

namespace prism::shim {

// Registers the callbacks with libtorch.
void StartValueRules();

}  // namespace prism::shim
