// Results of small kernels that programs steer by, written by rule since no kernel runs: constants
// (fill_, zero_, arange) have their true values; a test whether everything is so (all, isfinite)
// comes out true, which is counted. Small results of integers whose inputs are known are computed
// (true_results.h); what a selection of unknown values selects follows a rule (routing_rule.h).
// Whatever no rule covers reads as zero (shim/cuda/memory.h): isnan and any are false, found_inf of
// a gradient scaler is 0, a loss is 0.
#pragma once

namespace prism::shim {

// Registers the callbacks with libtorch.
void StartValueRules();

}  // namespace prism::shim
