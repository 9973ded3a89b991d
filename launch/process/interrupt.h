// What ends a run from outside, as a flag that every loop checks, so that it ends in order
// (children killed, no partial result): SIGINT, SIGTERM and SIGHUP, with exit code 130 or 143, and
// another host of the run that is gone. SIGUSR1 is caught too, as a request for a report.
#pragma once

#include "graph/base/status.h"

namespace prism::launch {

// Handles SIGINT, SIGTERM, SIGHUP and SIGUSR1 from now on. Call once, in main.
void InstallInterruptHandlers();

// kInterrupted or kTerminated once such a signal has arrived, kRunFailed with the host's name once
// only a host is gone, else OK.
Status InterruptStatus();

// From now on hosts are watched by it; null: by nobody.
class HostWatch;
void UseHostWatch(HostWatch* watch);

// True once after each SIGUSR1, which asks where the sandbox ranks are.
bool TakeReportRequest();

}  // namespace prism::launch
