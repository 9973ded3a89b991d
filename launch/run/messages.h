// The first byte of every message between the processes of a run, and who sends it.
#pragma once

#include <cstdint>

namespace prism::launch {

enum class MessageKind : uint8_t {
  kHello,     // worker → 0: pid, host name
  kFragment,  // worker → 0: a recorded rank's fragment
  kFailed,    // worker → 0: status code, message
  kEmulate,   // 0 → worker: go on with the emulation; the graph's bytes, the MeetingPoint
  kOps,       // worker → 0: what its sandbox ranks did (emulation_messages.h)
  kAnswers,   // 0 → worker: what time it is for them
  kRankLeft,  // worker → 0: rank, its log; its program has left in order
  kStop,      // 0 → worker: leave; 0 or the exit code of the run
};

}  // namespace prism::launch
