#include "launch/process/interrupt.h"

#include <signal.h>

namespace prism::launch {
namespace {

// A signal handler can only reach what is global.
volatile sig_atomic_t received_signal = 0;

void OnSignal(int number) {
  received_signal = number;
}

}  // namespace

void InstallInterruptHandlers() {
  struct sigaction action = {};
  action.sa_handler = OnSignal;
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  // A reader of our output that has gone shows as a failed write, not as a signal.
  action.sa_handler = SIG_IGN;
  sigaction(SIGPIPE, &action, nullptr);
}

Status InterruptStatus() {
  switch (received_signal) {
    case 0:
      return OkStatus();
    case SIGINT:
      return {StatusCode::kInterrupted, "interrupted"};
    default:
      return {StatusCode::kTerminated, "terminated by a signal"};
  }
}

}  // namespace prism::launch
