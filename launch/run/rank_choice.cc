#include "launch/run/rank_choice.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "launch/options/sandbox_list.h"

namespace prism::launch {
namespace {

Status CheckTracing(const Options& options) {
  if (!options.trace_ranks.empty() && !options.perfetto) {
    return InvalidArgument("--trace-ranks without --perfetto has no effect; add --perfetto");
  }
  return OkStatus();
}

Status RefuseTerminalFor(size_t count) {
  return InvalidArgument(
      fmt::format("--interactive with {} sandbox ranks: one terminal serves one rank; name it, as "
                  "in --sandbox-ranks stage:3",
                  count));
}

// The history of blocks is known of programs that run in the emulation.
Status ResolveSnapshotRanks(RunContext* context) {
  const std::string& list = context->options.memory_snapshot;
  if (list == "all") {
    context->snapshot_ranks = context->sandbox_ranks;
  } else if (!list.empty()) {
    PRISM_ASSIGN_OR_RETURN(context->snapshot_ranks,
                           ResolveRankList("--memory-snapshot", list, context->job, context->plan));
  }
  for (const Rank rank : context->snapshot_ranks) {
    if (!std::binary_search(context->sandbox_ranks.begin(), context->sandbox_ranks.end(), rank)) {
      return InvalidArgument(
          fmt::format("--memory-snapshot: rank {} is no sandbox rank; add it to --sandbox-ranks",
                      rank.value()));
    }
  }
  return OkStatus();
}

Status ResolveShownRanks(RunContext* context) {
  const Options& options = context->options;
  const bool named = options.sandbox_ranks != Options().sandbox_ranks;
  const bool shown =
      named && options.log_ranks.empty() && options.format == Options().format && !options.quiet;
  if (options.log_ranks == "all" || shown) {
    context->log_ranks = context->sandbox_ranks;
  } else if (!options.log_ranks.empty()) {
    PRISM_ASSIGN_OR_RETURN(context->log_ranks, ResolveRankList("--log-ranks", options.log_ranks,
                                                               context->job, context->plan));
  }
  if (options.perfetto) {
    context->traced_ranks = context->sandbox_ranks;
  }
  if (!options.trace_ranks.empty()) {
    PRISM_ASSIGN_OR_RETURN(
        const std::vector<Rank> further,
        ResolveRankList("--trace-ranks", options.trace_ranks, context->job, context->plan));
    std::vector<Rank> all;
    std::set_union(context->traced_ranks.begin(), context->traced_ranks.end(), further.begin(),
                   further.end(), std::back_inserter(all));
    context->traced_ranks = std::move(all);
  }
  return ResolveSnapshotRanks(context);
}

}  // namespace

Status ChooseRanks(RunContext* context) {
  PRISM_RETURN_IF_ERROR(CheckTracing(context->options));
  PRISM_ASSIGN_OR_RETURN(context->sandbox_ranks,
                         ResolveRankList("--sandbox-ranks", context->options.sandbox_ranks,
                                         context->job, context->plan));
  const size_t count = context->sandbox_ranks.size();
  if (context->options.interactive && count != 1) {
    return RefuseTerminalFor(count);
  }
  return ResolveShownRanks(context);
}

Status ChooseNumberedRanks(RunContext* context) {
  const Options& options = context->options;
  PRISM_RETURN_IF_ERROR(CheckTracing(options));
  PRISM_ASSIGN_OR_RETURN(context->sandbox_ranks,
                         NumberedRanks("--sandbox-ranks", options.sandbox_ranks, context->job));
  const size_t count = context->sandbox_ranks.size();
  if (options.interactive && (count > 1 || options.sandbox_ranks == "none")) {
    return RefuseTerminalFor(count);
  }
  if (options.log_ranks != "all") {
    PRISM_RETURN_IF_ERROR(NumberedRanks("--log-ranks",
                                        options.log_ranks.empty() ? "none" : options.log_ranks,
                                        context->job)
                              .status());
  }
  return NumberedRanks("--trace-ranks", options.trace_ranks.empty() ? "none" : options.trace_ranks,
                       context->job)
      .status();
}

}  // namespace prism::launch
