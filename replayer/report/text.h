// The final block on stdout: at most 25 lines, in the order job and cluster, times, rates,
// breakdown, memory, bottlenecks, warnings, files, next command.
#pragma once

#include <string>
#include <vector>

#include "replayer/report/summary.h"

namespace prism::replayer {

struct TextOptions {
  std::string output_folder;  // "" when nothing was written
  std::string wall;           // where the real time went, one line; "" none
};

// Decimals of a time in seconds: four, or more where less than 10 ms would lose its digits.
int TimeDecimals(double seconds);

// The same with two more, for times that are held against each other: "0.098312 s".
int FineDecimals(double seconds);
std::string FineSeconds(double seconds);

// The gravest come first, then what was counted most: a line each with the first that was met.
std::string WarningLines(std::vector<graph::Warning> warnings);

std::string SummaryText(const Summary& summary, const TextOptions& options);

}  // namespace prism::replayer
