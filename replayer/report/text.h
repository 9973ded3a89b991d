// The final block on stdout: at most 25 lines, in the order job and cluster, times, rates,
// breakdown, memory, bottlenecks, warnings, files, next command.
#pragma once

#include <string>

#include "replayer/report/summary.h"

namespace prism::replayer {

struct TextOptions {
  std::string output_folder;  // "" when nothing was written
  std::string wall;           // where the real time went, one line; "" none
};

std::string SummaryText(const Summary& summary, const TextOptions& options);

}  // namespace prism::replayer
