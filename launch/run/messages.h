// The first byte of every message between the processes of a run, and who sends it.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/base/ids.h"
#include "launch/process/wire.h"

namespace prism::launch {

enum class MessageKind : uint8_t {
  kHello,     // worker → 0: pid, host name
  kRecord,    // 0 → worker: RecordedLength, the value book so far; record these ranks, too
  kFragment,  // worker → 0: a recorded rank's fragment, the values that it gave to absent ranks
  kFailed,    // worker → 0: status code, message
  kEmulate,   // 0 → worker: go on with the emulation (emulate_message.h)
  kOps,       // worker → 0: number of the emulation, what its sandbox ranks did
              // (emulation_messages.h)
  kAnswers,   // 0 → worker: what time it is for them
  kHung,      // 0 → worker: they wait for what never comes, and are to stay
  kRankLeft,  // worker → 0: number of the emulation, rank, its log, its memory history or ""; its
              // program has left in order
  kStop,      // 0 → worker: leave; 0 or the exit code of the run
};

inline void PutRanks(const std::vector<Rank>& ranks, WireWriter* message) {
  message->Put(static_cast<uint32_t>(ranks.size()));
  for (const Rank rank : ranks) {
    message->Put(rank.value());
  }
}

inline std::vector<Rank> GetRanks(WireReader* message) {
  std::vector<Rank> ranks(message->Get<uint32_t>());
  for (Rank& rank : ranks) {
    rank = Rank(message->Get<uint32_t>());
  }
  return ranks;
}

}  // namespace prism::launch
