// The execution graph of a plan: what its evaluation replays stage by stage, written out for all
// ranks, for the verbs that work on graphs (prism replay, export, diff, mem).
#pragma once

#include "graph/base/status.h"
#include "graph/graph.h"
#include "launch/plan/plan.h"
#include "launch/plan/plan_evaluator.h"

namespace prism::launch {

// A valid graph. Its replay takes PlanEvaluator::Time, to the nanosecond; or less if that is
// `uneven`, as each rank is then evaluated separately. Host time outside ops (host.iteration_ns) is
// on every stream at the end of an iteration; the cluster is the one that the job finds
// (replayer/cost/congestion.h); memory is that of the simulated allocator, for every stage. Fails
// as Time and Memory do.
Result<graph::Graph> GraphOf(const PlanEvaluator& evaluator, const Plan& plan);

}  // namespace prism::launch
