// The check of a program as process 0 makes it: what recorded ranks did with each other, from the
// first group to where they were left, is matched before there is a graph. The recordings serve
// both; further ranks are followed as long as that is cheap. A program that cannot be recorded,
// though none of its ranks failed, is followed from its start once more, since a fault may be why.
#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "graph/base/units.h"
#include "launch/emulate/run/calls_pass.h"
#include "launch/emulate/run/check_report.h"
#include "launch/emulate/run/master.h"
#include "launch/process/output.h"

namespace prism::launch {
namespace {

constexpr double kShareOfMore = 0.05;  // of the slice's seconds, for further ranks

bool GoesOnWithFaults(const Options& options) {
  return options.interactive || options.on_mismatch != OnMismatch::kAbort;
}

// Some of them, to one call. Each rank was followed without knowing what later ones contribute.
bool ContributeUnequally(const std::vector<slicer::RankCalls>& ranks) {
  std::map<uint64_t, uint64_t> values;
  return std::ranges::any_of(ranks, [&](const slicer::RankCalls& rank) {
    return std::ranges::any_of(rank.contributions, [&](const slicer::CalledContribution& each) {
      return values.try_emplace(each.call, each.value).first->second != each.value;
    });
  });
}

}  // namespace

CheckLength Master::LengthOfCheck() const {
  const Options& options = context_.options;
  return {.seconds = options.check_seconds,
          .steps = checked_steps_.value_or(options.check_iterations),
          .is_known = checked_steps_.has_value()};
}

// What a rank did that was given others' integers may be what they would do.
void Master::TakeCalls(RecordedRank* recorded) {
  if (!recorded->calls) {
    return;
  }
  slicer::RankCalls& calls = *recorded->calls;
  if (!checked_steps_) {
    checked_steps_ = calls.end == slicer::CallsEnd::kCut ? std::max(1, calls.steps - 1) : 0;
  }
  calls_.erase(calls.rank);
  if (!recorded->guessed) {
    calls_.emplace(calls.rank, std::move(calls));
  }
}

// Ranks that no role needs, if a rank starts in the time that they may take.
Status Master::CheckMoreRanks(double slice_seconds) {
  std::vector<Rank> more = RanksToCheck(context_);
  double start_s = std::numeric_limits<double>::max();
  CallsPass::Others others;
  for (const graph::Fragment& fragment : slice_.fragments()) {
    std::erase(more, fragment.rank);
    others.known.push_back(fragment.rank);
    start_s = std::min(start_s, fragment.startup_seconds);
  }
  const double seconds = context_.options.check_seconds.value_or(kShareOfMore * slice_seconds);
  if (2 * start_s > seconds) {
    return OkStatus();
  }
  const auto first = calls_.find(Rank(0));
  others.first = first == calls_.end() ? nullptr : &first->second;
  others.length = {.seconds = seconds, .steps = LengthOfCheck().steps};
  others.book = slice_.book();
  others.seconds = seconds;
  CallsPass pass(context_, worker_.starter(), progress_);
  PRISM_ASSIGN_OR_RETURN(std::vector<slicer::RankCalls> calls, pass.RecordMore(more, others));
  for (slicer::RankCalls& rank : calls) {
    calls_.emplace(rank.rank, std::move(rank));
  }
  return OkStatus();
}

Result<std::vector<slicer::RankCalls>> Master::WholeProgram(const std::vector<Rank>& ranks) {
  const Options& options = context_.options;
  CallsPass pass(context_, worker_.starter(), progress_);
  CallsLength length = {.steps = options.check_iterations};
  length.seconds = options.check_seconds.value_or(length.seconds);
  return pass.Record(ranks, length);
}

Result<CheckReport> Master::ConfirmFaults(const std::vector<slicer::RankCalls>& calls,
                                          CheckReport report) {
  if (report.is_well() || !ContributeUnequally(calls)) {
    return report;
  }
  std::vector<Rank> ranks;
  for (const slicer::RankCalls& rank : calls) {
    ranks.push_back(rank.rank);
  }
  context_.logger.Info(
      "ranks contribute unequally to reductions or gatherings of integers; what "
      "looks like a fault is looked at again with their values");
  PRISM_ASSIGN_OR_RETURN(const std::vector<slicer::RankCalls> whole, WholeProgram(ranks));
  return MakeCheckReport(whole, context_.job.parallel.world_size());
}

Status Master::CheckProgram(const Status& sliced, RunOutcome* outcome) {
  if (!sliced.ok() && (sliced.code() != StatusCode::kRunFailed || program_failed_)) {
    return sliced;
  }
  std::vector<slicer::RankCalls> calls;
  if (sliced.ok()) {
    for (auto& [rank, recorded] : calls_) {
      calls.push_back(std::move(recorded));
    }
    calls_.clear();
  } else {
    Result<std::vector<slicer::RankCalls>> whole = WholeProgram(RanksToCheck(context_));
    if (!whole.ok() && whole.status().code() == StatusCode::kRunFailed) {
      const std::string& why = whole.status().message();  // of the recording too, perhaps
      context_.logger.Info("nor can it be checked: {}", why.substr(0, why.find(kOutputHeading)));
      return sliced;
    }
    PRISM_RETURN_IF_ERROR(whole.status());
    calls = *std::move(whole);
  }
  CheckReport report = MakeCheckReport(calls, context_.job.parallel.world_size());
  if (sliced.ok()) {
    PRISM_ASSIGN_OR_RETURN(report, ConfirmFaults(calls, std::move(report)));
  }
  context_.job.facts.checked = report.is_well() ? "ok" : "fault";
  outcome->checked_until = report.checked_until;
  outcome->checked_ranks = report.recorded;
  progress_.Clear();
  for (const std::string& warning : report.result.warnings) {
    context_.logger.Warning("{}", warning);
  }
  if (report.is_well()) {
    context_.logger.Info("{} until {}", report.sentence, report.checked_until);
    return sliced;
  }
  if (GoesOnWithFaults(context_.options)) {
    WarnOf(CheckText(report),
           fmt::format("the run goes on, by {}",
                       context_.options.interactive
                           ? "--interactive"
                           : fmt::format("--on-mismatch {}",
                                         NameOf(kOnMismatchNames, context_.options.on_mismatch))));
    return sliced;
  }
  const bool json = context_.options.format == OutputFormat::kJson;
  PRISM_RETURN_IF_ERROR(Print(json ? CheckJson(report) : Harmless(CheckText(report))));
  return RunFailed(fmt::format("the program has a fault: {}: {}",
                               NameOf(slicer::kFaultKindNames, report.result.faults.front().kind),
                               report.sentence));
}

}  // namespace prism::launch
