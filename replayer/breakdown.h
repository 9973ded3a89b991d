// Splits a rank's iteration into compute, exposed communication, bubble and idle, exactly.
#pragma once

#include <vector>

#include "replayer/rendezvous.h"
#include "replayer/replay.h"

namespace prism::replayer {

// What kept a rank busy, as ranges in any order; they may overlap and reach out of the window.
struct Activity {
  std::vector<TimeRange> compute;
  std::vector<TimeRange> transfer;
  std::vector<TimeRange> peer_wait;  // before the transfer of a pipeline peer starts
};

// First match wins: compute, transfer, peer_wait, the rest. Sums to window.end - window.begin.
RankTimes BreakDown(const Activity& activity, TimeRange window);

}  // namespace prism::replayer
