#include "launch/emulate/run/rank_choice.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "launch/inputs/sandbox_list.h"

namespace prism::launch {
namespace {

Status CheckTracing(const Options& options) {
  if (!options.trace_ranks.empty() && !options.perfetto) {
    return AtOrigin(
        options, {"trace_ranks", "perfetto"},
        InvalidArgument("--trace-ranks has no effect without --perfetto; add --perfetto"));
  }
  return OkStatus();
}

// "sandbox_ranks" → "--sandbox-ranks".
std::string FlagOf(std::string key) {
  std::replace(key.begin(), key.end(), '_', '-');
  return "--" + key;
}

struct SandboxUse {
  const char* key;
  bool is_asked = false;
  const char* lacks;
};

// What only sandbox ranks give would be missing without a word.
Status CheckSandboxUse(const Options& options) {
  const auto lists = [](const std::string& list) { return !list.empty() && list != "none"; };
  const SandboxUse uses[] = {
      {"max_error", options.max_error_pct.has_value(),
       "nothing can differ from the graph; leave one out"},
      {"log_ranks", lists(options.log_ranks), "there is no output to show; leave one out"},
      {"memory_snapshot", lists(options.memory_snapshot), "no memory has a history; leave one out"},
      {"perfetto", options.perfetto && !lists(options.trace_ranks),
       "the trace is empty; name ranks in --trace-ranks, or leave one out"}};
  for (const auto& [key, is_asked, lacks] : uses) {
    if (is_asked && options.sandbox_ranks == "none") {
      return AtOrigin(options, {key, "sandbox_ranks"},
                      InvalidArgument(fmt::format("{} and --sandbox-ranks none exclude each other: "
                                                  "without a sandbox rank {}",
                                                  FlagOf(key), lacks)));
    }
  }
  return OkStatus();
}

Status RefuseTerminalFor(const Options& options, size_t count) {
  return AtOrigin(options, {"interactive", "sandbox_ranks"},
                  InvalidArgument(fmt::format("--interactive needs exactly one sandbox rank, not "
                                              "{}; name it, as in --sandbox-ranks stage:3",
                                              count)));
}

// The ranks listed in the option with this key.
Result<std::vector<Rank>> ListedRanks(const RunContext& context,
                                      const std::string& key,
                                      const std::string& list) {
  Result<std::vector<Rank>> ranks = ResolveRankList(FlagOf(key), list, context.job, context.plan);
  PRISM_RETURN_IF_ERROR(AtOrigin(context.options, {key}, ranks.status()));
  return ranks;
}

// Those of them that can be resolved without a layout.
Result<std::vector<Rank>> ListedNumbers(const RunContext& context,
                                        const std::string& key,
                                        const std::string& list) {
  Result<std::vector<Rank>> ranks =
      NumberedRanks(FlagOf(key), list.empty() ? "none" : list, context.job);
  PRISM_RETURN_IF_ERROR(AtOrigin(context.options, {key}, ranks.status()));
  return ranks;
}

// The history of blocks is known only for programs that run in the emulation, so the option's ranks
// must be sandbox ranks.
Status CheckInSandbox(const RunContext& context,
                      const std::string& option,
                      const std::vector<Rank>& ranks) {
  const std::vector<Rank>& present = context.sandbox_ranks;
  const auto absent = std::ranges::find_if(
      ranks, [&](Rank rank) { return !std::binary_search(present.begin(), present.end(), rank); });
  if (absent == ranks.end()) {
    return OkStatus();
  }
  return AtOrigin(
      context.options, {option, "sandbox_ranks"},
      InvalidArgument(fmt::format("{}: rank {} is not a sandbox rank; add it to --sandbox-ranks",
                                  FlagOf(option), absent->value())));
}

Status ResolveSnapshotRanks(RunContext* context) {
  const std::string& list = context->options.memory_snapshot;
  if (list == "all") {
    context->snapshot_ranks = context->sandbox_ranks;
  } else if (!list.empty()) {
    PRISM_ASSIGN_OR_RETURN(context->snapshot_ranks, ListedRanks(*context, "memory_snapshot", list));
  }
  return CheckInSandbox(*context, "memory_snapshot", context->snapshot_ranks);
}

Status ResolveShownRanks(RunContext* context) {
  const Options& options = context->options;
  const bool named = options.sandbox_ranks != Options().sandbox_ranks;
  const bool shown =
      named && options.log_ranks.empty() && options.format == Options().format && !options.quiet;
  if (options.log_ranks == "all" || shown) {
    context->log_ranks = context->sandbox_ranks;
  } else if (!options.log_ranks.empty()) {
    PRISM_ASSIGN_OR_RETURN(context->log_ranks,
                           ListedRanks(*context, "log_ranks", options.log_ranks));
    PRISM_RETURN_IF_ERROR(CheckInSandbox(*context, "log_ranks", context->log_ranks));
  }
  if (options.perfetto) {
    context->traced_ranks = context->sandbox_ranks;
  }
  if (!options.trace_ranks.empty()) {
    PRISM_ASSIGN_OR_RETURN(const std::vector<Rank> further,
                           ListedRanks(*context, "trace_ranks", options.trace_ranks));
    std::vector<Rank> all;
    std::set_union(context->traced_ranks.begin(), context->traced_ranks.end(), further.begin(),
                   further.end(), std::back_inserter(all));
    context->traced_ranks = std::move(all);
  }
  return ResolveSnapshotRanks(context);
}

}  // namespace

Result<std::vector<Rank>> RanksToRecord(const RunContext& context) {
  const Options& options = context.options;
  const std::string& list = options.record_ranks;
  const auto refuse = [&](const std::string& why) {
    return AtOrigin(options, {"record_ranks"}, InvalidArgument("--record-ranks: " + why));
  };
  if (list.empty()) {
    return std::vector<Rank>();
  }
  if (options.program.empty() || !options.graph.empty()) {
    return refuse(options.graph.empty()
                      ? "which ranks of the built-in program are recorded is planned; leave it out"
                      : "with --graph nothing is recorded; leave one out");
  }
  std::vector<Rank> ranks;
  if (list == "all") {
    for (int64_t rank = 0; rank < context.job.parallel.world_size(); ++rank) {
      ranks.emplace_back(static_cast<uint32_t>(rank));
    }
  } else {
    if (list == "none" || list.find("auto") != list.npos || list.find(':') != list.npos) {
      return refuse(
          fmt::format("'{}' needs a layout, which only the recording shows; use all, "
                      "numbers and ranges (3-5)",
                      list));
    }
    PRISM_ASSIGN_OR_RETURN(ranks, ListedNumbers(context, "record_ranks", list));
  }
  if (ranks.size() > static_cast<size_t>(options.max_roles)) {
    return refuse(fmt::format("{} ranks, but --max-roles is {}; name fewer, or give a larger one",
                              ranks.size(), options.max_roles));
  }
  return ranks;
}

Status CheckRankOptions(const Options& options) {
  PRISM_RETURN_IF_ERROR(CheckSandboxUse(options));
  return CheckTracing(options);
}

Status ChooseRanks(RunContext* context) {
  PRISM_ASSIGN_OR_RETURN(context->sandbox_ranks,
                         ListedRanks(*context, "sandbox_ranks", context->options.sandbox_ranks));
  const size_t count = context->sandbox_ranks.size();
  if (context->options.interactive && count != 1) {
    return RefuseTerminalFor(context->options, count);
  }
  return ResolveShownRanks(context);
}

Status ChooseNumberedRanks(RunContext* context) {
  const Options& options = context->options;
  PRISM_ASSIGN_OR_RETURN(context->sandbox_ranks,
                         ListedNumbers(*context, "sandbox_ranks", options.sandbox_ranks));
  const size_t count = context->sandbox_ranks.size();
  if (options.interactive && (count > 1 || options.sandbox_ranks == "none")) {
    return RefuseTerminalFor(context->options, count);
  }
  if (options.log_ranks != "all") {
    PRISM_RETURN_IF_ERROR(ListedNumbers(*context, "log_ranks", options.log_ranks).status());
  }
  return ListedNumbers(*context, "trace_ranks", options.trace_ranks).status();
}

}  // namespace prism::launch
