// The execution graph of a plan: what its evaluation replays stage by stage, written out for all
// ranks, for the verbs that work on graphs (prism replay, export, diff, mem).
#pragma once

#include "graph/base/status.h"
#include "graph/graph.h"
#include "launch/search/plan.h"
#include "launch/search/plan_evaluator.h"

namespace prism::launch {

// A valid graph. Its replay takes PlanEvaluator::Time, to the nanosecond; less where that says
// `uneven`, as each rank is evaluated by itself then. The host's time outside of ops
// (host.iteration_ns) stands on every stream at the end of an iteration, the cluster is the one
// that the job finds (replayer/cost/congestion.h), memory that of the simulated allocator, of every
// stage. Fails as Time and Memory do.
Result<graph::Graph> GraphOf(const PlanEvaluator& evaluator, const Plan& plan);

}  // namespace prism::launch
