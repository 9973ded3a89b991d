// The final block on stdout: at most 25 lines, in the order job and cluster, times, rates,
// breakdown, memory, bottlenecks, warnings, files, next command.
#pragma once

#include <string>
#include <vector>

#include "replayer/report/summary.h"

namespace prism::replayer {

struct TextOptions {
  std::string output_folder;  // "" when nothing was written
  int64_t trace_bytes = 0;    // of trace.pftrace there; 0: none
  std::string wall;           // where the real time went, one line; "": none
};

// Decimals of a time in seconds: four, or more where less than 10 ms would lose its digits.
int TimeDecimals(double seconds);

// Two decimals more, for times that are compared: "0.098312 s".
int FineDecimals(double seconds);
std::string FineSeconds(double seconds);

// One line per warning with its first example; the most severe first, then by count.
std::string WarningLines(std::vector<graph::Warning> warnings);

std::string SummaryText(const Summary& summary, const TextOptions& options);

}  // namespace prism::replayer
