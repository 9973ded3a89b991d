#include "launch/process/interrupt.h"

#include <signal.h>

namespace prism::launch {
namespace {

// A signal handler can access only globals.
volatile sig_atomic_t received_signal = 0;
volatile sig_atomic_t report_requested = 0;

void OnSignal(int number) {
  received_signal = number;
}

void OnReportSignal(int /*number*/) {
  report_requested = 1;
}

}  // namespace

void InstallInterruptHandlers() {
  struct sigaction action = {};
  action.sa_handler = OnSignal;
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  struct sigaction before = {};
  if (sigaction(SIGHUP, nullptr, &before) == 0 && before.sa_handler != SIG_IGN) {  // not by nohup
    sigaction(SIGHUP, &action, nullptr);
  }
  action.sa_handler = OnReportSignal;
  action.sa_flags = SA_RESTART;
  sigaction(SIGUSR1, &action, nullptr);
  // When the reader of our output is gone, or a file grows beyond its limit, that shall show as a
  // failed write, not as a signal.
  action.sa_handler = SIG_IGN;
  sigaction(SIGPIPE, &action, nullptr);
  sigaction(SIGXFSZ, &action, nullptr);
}

bool TakeReportRequest() {
  const bool requested = report_requested != 0;
  report_requested = 0;
  return requested;
}

Status InterruptStatus() {
  switch (received_signal) {
    case 0:
      return OkStatus();
    case SIGINT:
      return {StatusCode::kInterrupted, "interrupted by SIGINT"};
    case SIGHUP:
      return {StatusCode::kTerminated, "terminated by SIGHUP: its terminal was closed"};
    default:
      return {StatusCode::kTerminated, "terminated by SIGTERM"};
  }
}

}  // namespace prism::launch
