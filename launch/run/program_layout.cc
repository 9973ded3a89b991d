#include "launch/run/program_layout.h"

#include <algorithm>

#include <fmt/format.h>

#include "graph/base/units.h"
#include "graph/rank_grid.h"
#include "launch/options/job_resolution.h"
#include "launch/run/rank_choice.h"
#include "slicer/probe/derive_grid.h"

namespace prism::launch {

slicer::ProbeOptions MakeProbeOptions(const RunContext& context) {
  slicer::ProbeOptions options;
  options.given = context.job.parallel;
  options.named = context.sandbox_ranks;
  options.seed = context.job.seed;
  options.max_roles = context.options.max_roles;
  return options;
}

Status SettleProgram(const slicer::ProbeStep& found,
                     const std::vector<graph::Fragment>& fragments,
                     RunContext* context) {
  context->plan = found.plan;
  context->job.facts.axes = found.axes;
  SetProgramLayout(context->options, slicer::SizesOf(found.axes), &context->job);
  int32_t warmup = 0;
  for (const graph::Fragment& fragment : fragments) {
    warmup = std::max(warmup, fragment.warmup_iterations);
  }
  const graph::Fragment& first = fragments.front();
  context->logger.Info("ranks form {}; {}; iterations begin with {}, {} of them to warm up",
                       graph::RankGrid(found.axes).ToText(),
                       FormatCounted(static_cast<int64_t>(found.plan.roles.size()), "role"),
                       first.iteration_begin, warmup);
  const int32_t available = first.iterations - warmup;
  if (available < 1) {
    return RunFailed(fmt::format(
        "rank 0 ran {} iterations, but another needed {} to warm up; let the program run more",
        first.iterations, warmup));
  }
  if (available < context->options.iterations) {
    context->logger.Info("the program has {} iterations alike after warm-up, of {} asked for",
                         available, context->options.iterations);
    context->options.iterations = available;
  }
  return ChooseRanks(context);
}

}  // namespace prism::launch
