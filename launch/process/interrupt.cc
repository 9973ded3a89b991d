#include "launch/process/interrupt.h"

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <thread>

#include <fmt/format.h>

#include "launch/process/host_watch.h"
#include "launch/process/mpi_session.h"

namespace prism::launch {
namespace {

// A signal handler can access only globals.
volatile sig_atomic_t received_signal = 0;
volatile sig_atomic_t sender = 0;  // process number
volatile sig_atomic_t report_requested = 0;
std::atomic<HostWatch*> host_watch = nullptr;

void OnSignal(int number, siginfo_t* info, void* /*context*/) {
  received_signal = number;
  sender = info->si_pid;
}

void OnReportSignal(int /*number*/) {
  report_requested = 1;
}

bool IsOfLauncher() {
  return MpiSession::LaunchedByMpi() && sender == getppid();
}

Status SignalStatus() {
  switch (received_signal) {
    case 0:
      return OkStatus();
    case SIGINT:
      return {StatusCode::kInterrupted, "interrupted by SIGINT"};
    case SIGHUP:
      return {StatusCode::kTerminated, "terminated by SIGHUP: its terminal was closed"};
    default:
      if (IsOfLauncher()) {
        if (MpiSession::LauncherName() == "slurmstepd") {
          return {
              StatusCode::kTerminated,
              "Slurm ended the run: its time limit is near, it was cancelled, or another process "
              "failed"};
        }
        return {StatusCode::kTerminated,
                "mpirun ended the run: another process failed or was killed, or mpirun itself was "
                "interrupted"};
      }
      return {StatusCode::kTerminated, "terminated by SIGTERM"};
  }
}

// mpirun, which hears of a killed host at once, is the first to say so, by a signal. It kills a
// second later; until then the host's connections show which one it is.
Status LostHost() {
  constexpr int kLooks = 10;
  constexpr auto kApart = std::chrono::milliseconds(50);
  static std::atomic<int> looks = 0;
  HostWatch* const watch = host_watch.load();
  if (watch == nullptr) {
    return OkStatus();
  }
  while (received_signal != 0 && IsOfLauncher() && watch->status().ok() && looks++ < kLooks) {
    watch->Look();
    std::this_thread::sleep_for(kApart);
  }
  return watch->status();
}

}  // namespace

void InstallInterruptHandlers() {
  struct sigaction action = {};
  action.sa_sigaction = OnSignal;
  action.sa_flags = SA_SIGINFO;
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

void UseHostWatch(HostWatch* watch) {
  host_watch = watch;
}

Status InterruptStatus() {
  const Status signalled = SignalStatus();
  const Status lost = LostHost();
  if (signalled.ok() || lost.ok()) {
    return signalled.ok() ? lost : signalled;
  }
  return {signalled.code(), fmt::format("{}; {}", signalled.message(), lost.message())};
}

}  // namespace prism::launch
