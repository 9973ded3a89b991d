// The records of a sandbox process as they arrive, one turn at a time, since processes share their
// worker.
#pragma once

#include <cstddef>
#include <functional>
#include <span>

#include "graph/base/status.h"
#include "launch/emulate/sandbox/sandbox_process.h"
#include "shim/channel/messages.h"

namespace prism::launch {

struct RecordTurn {
  int records = 0;      // taken
  int moves = 0;        // number of records except sleeps, which a program may repeat for ever
  bool exited = false;  // the process has exited; everything that it wrote has been taken
};

// Handles one record. False: take no more in this turn.
using RecordTaker =
    std::function<Result<bool>(const channel::Record& record, std::span<const std::byte> payload)>;

// Hands over the available records in order, and takes the output of the process. A turn is
// bounded, so that a process that keeps writing does not starve the others; one that has exited is
// read to its end. Never waits.
Result<RecordTurn> TakeRecords(SandboxProcess& process, const RecordTaker& take);

// Sleeps until the process has written a record, but only briefly: others may have.
void WaitForRecords(SandboxProcess& process);

}  // namespace prism::launch
