// SIGINT, SIGTERM and SIGHUP as a flag that every loop checks, so that a run ends in order:
// children killed, no partial result, exit code 130 or 143. SIGUSR1 is caught too, as a request for
// a report.
#pragma once

#include "graph/base/status.h"

namespace prism::launch {

// Handles SIGINT, SIGTERM, SIGHUP and SIGUSR1 from now on. Call once, in main.
void InstallInterruptHandlers();

// kInterrupted or kTerminated once such a signal has arrived, else OK.
Status InterruptStatus();

// True once after each SIGUSR1, which asks where the sandbox ranks are.
bool TakeReportRequest();

}  // namespace prism::launch
