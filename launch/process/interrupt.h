// SIGINT and SIGTERM as a flag that every loop looks at, so that a run ends in order: children
// killed, no half result, exit code 130 or 143.
#pragma once

#include "graph/base/status.h"

namespace prism::launch {

// Handles SIGINT and SIGTERM from now on. Once, in main.
void InstallInterruptHandlers();

// kInterrupted or kTerminated once such a signal has come, else OK.
Status InterruptStatus();

}  // namespace prism::launch
