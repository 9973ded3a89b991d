// What the check of a program says: prism check, and the first stage of a run of a program.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graph/base/ids.h"
#include "launch/emulate/run/run_context.h"
#include "slicer/check/calls.h"
#include "slicer/check/check.h"

namespace prism::launch {

// A run compares what its ranks do: of a program that it records, unless it is told not to, or
// measures the host, or the job has only one rank.
bool ChecksProgram(const RunContext& context);

// Those of --record-ranks, else all ranks of a small job. Of a large one the first and last ranks,
// of the job, of the first node and of halves, and as many again far from each other in every power
// of two: neighbours along each axis of a layout whose sizes are powers of two.
std::vector<Rank> RanksToCheck(const RunContext& context);

// Ranks that are not recorded, and what they are taken to do.
struct AssumedRanks {
  std::vector<Rank> ranks;
  Rank like;
  std::string reason;
};

struct CheckReport {
  slicer::CheckResult result;
  std::string sentence;
  std::string checked_until;
  std::vector<AssumedRanks> assumed;
  std::vector<std::string> assumptions;  // what stands for files, by --stand-in
  int64_t recorded = 0;                  // ranks
  int64_t world = 0;

  [[nodiscard]] bool is_well() const { return result.faults.empty(); }
};

// `calls`: by rank, of a job of `world` ranks.
CheckReport MakeCheckReport(const std::vector<slicer::RankCalls>& calls, int64_t world);

std::string CheckJson(const CheckReport& report);
std::string CheckText(const CheckReport& report);

}  // namespace prism::launch
