// The records of a sandbox process as they come, a turn at a time: processes share their worker.
#pragma once

#include <cstddef>
#include <functional>
#include <span>

#include "graph/base/status.h"
#include "launch/sandbox/sandbox_process.h"
#include "shim/channel/messages.h"

namespace prism::launch {

struct RecordTurn {
  int records = 0;      // taken
  int moves = 0;        // of them: all but sleeps, which a program may repeat for ever
  bool exited = false;  // the process has left; what it wrote before that was there to take
};

// What becomes of one record. False: no more is wanted in this turn.
using RecordTaker =
    std::function<Result<bool>(const channel::Record& record, std::span<const std::byte> payload)>;

// Hands over the records that are there, in order, and takes the output of the process. A turn has
// a bound, so that a process that goes on writing leaves the others theirs; one that has left is
// taken to its end. Never waits.
Result<RecordTurn> TakeRecords(SandboxProcess& process, const RecordTaker& take);

}  // namespace prism::launch
