// Ranks that were not recorded do what a recorded one of their role did; here preferably one other
// than rank 0, which alone often logs and saves.
#include "launch/emulate/run/odd_times.h"

#include <algorithm>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "graph/base/enum_names.h"
#include "graph/validate/valid_graph.h"
#include "replayer/replay.h"
#include "slicer/stitch/stitch.h"

namespace prism::launch {
namespace {

using slicer::OddSort;

constexpr EnumNames<OddSort, 5> kOddSortNames = {{
    {OddSort::kCheckpoint, "checkpoint"},
    {OddSort::kEvaluation, "evaluation"},
    {OddSort::kLogging, "logging"},
    {OddSort::kLast, "last"},
    {OddSort::kOther, "other"},
}};

// The recorded ranks' fragments of one iteration.
std::vector<graph::Fragment> FragmentsOf(const RecordedSlice& slice, int32_t number) {
  std::vector<graph::Fragment> fragments;
  for (const auto& [rank, odd] : slice.odd()) {
    const auto found = std::ranges::find(odd, number, &graph::Fragment::warmup_iterations);
    if (found != odd.end()) {
      fragments.push_back(*found);
    }
  }
  return fragments;
}

Result<DurationNs> TimeOf(const RunContext& context,
                          std::vector<graph::Fragment> fragments,
                          const replayer::ReplayOptions& options) {
  slicer::StitchInput input;
  input.job = context.job;
  input.cluster = context.cluster;
  input.plan = context.plan;
  for (const Rank rank : input.plan.RecordedRanks()) {
    if (std::ranges::count(fragments, rank, &graph::Fragment::rank) == 0) {
      return RunFailed(fmt::format("rank {} did not get that far", rank.value()));
    }
  }
  for (const graph::Fragment& fragment : fragments) {
    slicer::PlannedRole& role = input.plan.roles[input.plan.role_of[fragment.rank.value()]];
    if (role.representative == Rank(0)) {
      role.representative = fragment.rank;
    }
  }
  input.fragments = std::move(fragments);
  PRISM_ASSIGN_OR_RETURN(graph::Graph graph, slicer::Stitch(std::move(input)));
  PRISM_RETURN_IF_ERROR(graph::RefuseInvalid(&graph));
  PRISM_ASSIGN_OR_RETURN(const replayer::ReplayResult result, replayer::Replay(graph, options));
  return result.steady_iteration_ns();
}

}  // namespace

std::optional<int64_t> EveryOf(const std::vector<int32_t>& numbers) {
  if (numbers.size() < 2) {
    return std::nullopt;
  }
  const int32_t every = numbers[1] - numbers[0];
  const auto is_farther = [&](int32_t a, int32_t b) { return b - a != every; };
  return std::ranges::adjacent_find(numbers, is_farther) == numbers.end()
             ? std::optional<int64_t>(every)
             : std::nullopt;
}

std::vector<replayer::OddIteration> TimeOddIterations(const RunContext& context,
                                                      const RecordedSlice& slice,
                                                      const replayer::ReplayOptions& options,
                                                      DurationNs steady_ns,
                                                      std::vector<graph::Warning>* warnings) {
  std::vector<replayer::OddIteration> times;
  graph::Warning untimed = {.code = "odd_iteration_untimed", .count = 0, .example = ""};
  for (const slicer::OddKind& kind : slice.odd_kinds()) {
    replayer::OddIteration& time = times.emplace_back();
    time.kind = NameOf(kOddSortNames, kind.sort);
    time.count = static_cast<int64_t>(kind.numbers.size());
    time.every = EveryOf(kind.numbers);
    time.share = time.every ? 1 / static_cast<double>(*time.every)
                            : static_cast<double>(time.count) / slice.seen();
    const int32_t number = kind.numbers.front();
    const Result<DurationNs> taken = TimeOf(context, FragmentsOf(slice, number), options);
    if (taken.ok()) {
      time.seconds = SecondsFromNs(*taken);
      time.added_s = time.share * SecondsFromNs(*taken - steady_ns);
    } else if (++untimed.count == 1) {
      untimed.example =
          fmt::format("iteration {} ({}): {}", number, time.kind, taken.status().message());
    }
  }
  if (untimed.count > 0) {
    warnings->push_back(std::move(untimed));
  }
  return times;
}

}  // namespace prism::launch
