// All ranks must do the same iterations in the emulation, but each was recorded until it repeated
// itself, and only rank 0 for as long as the emulation lasts. The iterations that are emulated
// therefore begin after the longest warm-up of all recorded ranks and end before the first in which
// any of them did something else (AlikeFrom).
#include "launch/emulate/run/program_layout.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "graph/base/units.h"
#include "graph/job/rank_grid.h"
#include "graph/job/whole_program.h"
#include "launch/emulate/run/rank_choice.h"
#include "launch/emulate/sandbox/sandbox_process.h"
#include "launch/inputs/job_resolution.h"
#include "slicer/probe/derive_grid.h"

namespace prism::launch {

namespace {

// Sizes that the user gave and the program does not have are not an error: it may take them from
// its own options. But then the two should agree.
void CheckGiven(const graph::ParallelSizes& given,
                const graph::ParallelSizes& found,
                RunContext* context) {
  for (const auto& [name, asked, had] :
       {std::tuple("tp", given.tp, found.tp), std::tuple("pp", given.pp, found.pp)}) {
    if (asked != 1 && asked != had) {
      context->warnings.push_back(
          {"layout_not_as_given", 1,
           fmt::format("--{} is {}, but the program's groups make {} {}", name, asked, name, had)});
      context->logger.Warning("{}", context->warnings.back().example);
    }
  }
}

bool CallsCpuGroups(const graph::Fragment& fragment) {
  return std::ranges::count(fragment.warnings, "cpu_collectives", &graph::Warning::code) > 0;
}

void CheckCommunicates(const std::vector<graph::Fragment>& fragments,
                       const OddFragments& odd,
                       RunContext* context) {
  const auto communicates = [](const graph::Fragment& fragment) {
    return !fragment.comm_slots.empty();
  };
  const bool ever = std::ranges::any_of(
      fragments, [](const graph::Fragment& fragment) { return !fragment.early_calls.empty(); });
  if (std::ranges::none_of(fragments, communicates) &&
      std::ranges::none_of(
          odd, [&](const auto& rank) { return std::ranges::any_of(rank.second, communicates); }) &&
      context->job.parallel.world_size() > 1) {
    if (std::ranges::any_of(fragments, CallsCpuGroups)) {
      context->warnings.push_back(
          {"only_cpu_groups", 1,
           "ranks meet in CPU groups (gloo) alone: a call takes its messages' time, but no rank "
           "waits there for a late one"});
      context->logger.Warning("{}", context->warnings.back().example);
      return;
    }
    context->warnings.push_back(
        {"no_communication", 1,
         fmt::format("{}: its {} ranks are as many independent jobs on one GPU",
                     ever ? "the program does not communicate in the iteration that repeats"
                          : fmt::format("the program never communicates in the {} looked at",
                                        FormatCounted(fragments.front().iterations, "iteration")),
                     FormatCount(context->job.parallel.world_size()))});
    context->logger.Warning("{}", context->warnings.back().example);
  }
}

// `varies`: those of some rank are never the same.
void TellOfFewer(const IterationRange& alike, bool varies, RunContext* context) {
  if (varies) {
    context->assumptions.push_back(
        fmt::format("iteration {} stands for all, and is the only one of the emulation: no two in "
                    "a row are the same",
                    alike.begin));
    context->logger.Info("no two iterations in a row are the same: iteration {} stands for all",
                         alike.begin);
    return;
  }
  context->assumptions.push_back(
      fmt::format("the emulation has {} of the {} iterations asked for: rank 0 does something "
                  "else, or ends, after iteration {}",
                  alike.count, context->options.iterations, alike.begin + alike.count - 1));
  context->logger.Info("after warm-up the program has {}, of {} asked for",
                       FormatCounted(alike.count, "equal iteration"), context->options.iterations);
}

}  // namespace

IterationRange AlikeFrom(const std::vector<graph::Fragment>& fragments, int32_t begin) {
  std::set<int32_t> odd;
  for (const graph::Fragment& fragment : fragments) {
    odd.insert(fragment.odd_iterations.begin(), fragment.odd_iterations.end());
  }
  IterationRange range = {.begin = begin};
  for (int32_t i = begin; i < fragments.front().iterations; ++i) {
    if (!odd.contains(i)) {
      ++range.count;
    } else if (range.count > 0) {
      break;
    } else {
      range.begin = i + 1;
    }
  }
  return range;
}

slicer::ProbeOptions MakeProbeOptions(const RunContext& context) {
  slicer::ProbeOptions options;
  options.given = context.job.parallel;
  std::ranges::set_union(context.sandbox_ranks, context.record_ranks,
                         std::back_inserter(options.named));
  options.seed = context.job.seed;
  options.max_roles = context.options.max_roles;
  return options;
}

Status SettleProgram(const slicer::ProbeStep& found,
                     const std::vector<graph::Fragment>& fragments,
                     const OddFragments& odd,
                     RunContext* context) {
  context->plan = found.plan;
  context->job.facts.axes = found.axes;
  const graph::ParallelSizes given = context->job.parallel;
  SetProgramLayout(context->options, slicer::SizesOf(found.axes), &context->job);
  CheckGiven(given, context->job.parallel, context);
  CheckCommunicates(fragments, odd, context);
  int32_t warmup = 0;
  for (const graph::Fragment& fragment : fragments) {
    warmup = std::max(warmup, fragment.warmup_iterations);
  }
  const graph::Fragment& first = fragments.front();
  const IterationRange alike = AlikeFrom(fragments, warmup);
  context->job.facts.warmup_iterations = alike.begin;
  context->logger.Info("ranks form {}; {}; iterations begin with {}, {} of them to warm up",
                       graph::RankGrid(found.axes).ToText(),
                       FormatCounted(static_cast<int64_t>(found.plan.roles.size()), "role"),
                       first.iteration_begin, alike.begin);
  if (alike.begin > 0) {
    context->logger.Info(
        "times that the program prints while it warms up ({}) are not those of the cluster: "
        "nothing takes time there",
        FormatCounted(alike.begin, "iteration"));
  }
  if (alike.count == 0) {
    return RunFailed(fmt::format(
        "rank 0 ran {} iterations{}, but another rank needed {} to warm up; let the program run "
        "more iterations",
        first.iterations,
        first.odd_iterations.empty() ? "" : ", the last of which do something else", warmup));
  }
  if (alike.begin > warmup) {
    context->assumptions.push_back(
        fmt::format("the emulation begins with iteration {} of the program, not {}: rank 0 does "
                    "something else in between",
                    alike.begin, warmup));
  }
  if (first.steps_per_iteration == graph::kWholeProgram) {
    context->options.iterations = 1;
    context->logger.Info(
        "the program has no iterations (optimizer steps of torch, or ranges \"iteration\"): all of "
        "it is timed, once");
  } else if (alike.count < context->options.iterations) {
    TellOfFewer(alike, std::ranges::any_of(fragments, &graph::Fragment::varies), context);
    context->options.iterations = alike.count;
  }
  for (std::string& line : AssumedEnvironment()) {
    context->assumptions.push_back(std::move(line));
  }
  return ChooseRanks(context);
}

}  // namespace prism::launch
