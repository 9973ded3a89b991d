// SIGINT and SIGTERM as a flag that every loop looks at, so that a run ends in order: children
// killed, no half result, exit code 130 or 143. SIGUSR1 is caught too, as a question.
#pragma once

#include "graph/base/status.h"

namespace prism::launch {

// Handles SIGINT, SIGTERM and SIGUSR1 from now on. Once, in main.
void InstallInterruptHandlers();

// kInterrupted or kTerminated once such a signal has come, else OK.
Status InterruptStatus();

// True once after each SIGUSR1: somebody wants to see where the sandbox ranks are.
bool TakeReportRequest();

}  // namespace prism::launch
