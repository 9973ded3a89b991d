// The worker's end of a channel, for tests that start a program themselves.
#pragma once

#include <sys/wait.h>

#include <cstdint>
#include <functional>
#include <span>

#include "shim/channel/channel.h"

namespace prism::testing {

// Hands over every record up to and including the program's announcement of its exit, or until it
// is gone. Returns the announced exit code; -1 if none. Does not reap.
inline int DrainChannel(
    channel::Consumer* consumer,
    pid_t process,
    const std::function<void(const channel::Record&, std::span<const std::byte>)>& take) {
  constexpr int64_t kPatienceNs = 1'000'000'000;
  channel::Record record = {};
  std::span<const std::byte> payload;
  while (true) {
    if (consumer->TryPop(&record, &payload)) {
      take(record, payload);
      if (record.kind == channel::RecordKind::kExit) {
        return record.exit.code;
      }
      continue;
    }
    siginfo_t info = {};
    if (!consumer->WaitForRecord(kPatienceNs) &&
        waitid(P_PID, static_cast<id_t>(process), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
        info.si_pid == process) {
      return -1;
    }
  }
}

}  // namespace prism::testing
