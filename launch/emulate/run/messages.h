// The messages between the processes of a run: the first byte of each, who sends it, and what it
// contains. Messages while sandbox ranks run are in launch/emulate/clock/emulation_messages.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "graph/base/ids.h"
#include "launch/emulate/run/recorded_slice.h"
#include "launch/process/wire.h"

namespace prism::launch {

enum class MessageKind : uint8_t {
  kHello,     // worker → 0: pid, WorkerHost, addresses of the host, its GPUs
  kRecord,    // 0 → worker: PassLength, RecordingShare, the value book so far, ranks to record
  kRecorded,  // worker → 0: RecordedRank
  kStopped,   // worker → 0: StoppedRank; recorded later, or the run fails
  kFailed,    // worker → 0: RecordPass::program_ended_well, status code, message
  kMeet,      // 0 → first worker of each host: MeetMessage; prepare for an emulation
  kMeeting,   // first worker → 0: MeetingMessage
  kExchange,  // first worker → first worker: number of the emulation, host, of its ExchangeMirror
  kStore,     // first worker → first worker: number of the emulation, host, of its StoreRelay
  kEmulate,   // 0 → worker: EmulateMessage; start the emulation
  kOps,       // worker → 0: number of the emulation, RankEvents of its sandbox ranks
  kAnswers,   // 0 → worker: AnswerBatch, their virtual time
  kHung,      // 0 → worker: they wait for something that never comes; keep them
  kRankLeft,  // worker → 0: number of the emulation, rank, its log, its memory history or ""; its
              // program has exited normally
  kStop,      // 0 → worker: leave; 0 or the exit code of the run
};

void PutRanks(const std::vector<Rank>& ranks, WireWriter* message);
std::vector<Rank> GetRanks(WireReader* message);

// With the kind before it; what follows the kind.
std::string Encode(const RecordedRank& recorded);
// `most_bytes`: of memory, for its fragments.
Result<RecordedRank> GetRecorded(WireReader* message,
                                 size_t most_bytes = std::numeric_limits<size_t>::max());
std::string Encode(const StoppedRank& stopped);
StoppedRank GetStopped(WireReader* message);

// Sent before an emulation begins.
struct MeetMessage {
  uint32_t number = 0;       // of the emulation in this run
  int32_t host = 0;          // that gets the message
  std::vector<int> leaders;  // by host: its first worker
  uint16_t store_port = 0;   // of the StoreServer, on host 0; 0: there is none
};

// What the ranks of a host meet through.
struct MeetingMessage {
  uint32_t number = 0;
  int32_t host = 0;
  std::string exchange;     // MeetingPoint::exchange
  uint16_t store_port = 0;  // MeetingPoint::store_port
};

// With the kind before it; what follows the kind.
std::string Encode(const MeetMessage& message);
MeetMessage GetMeet(WireReader* message);
std::string Encode(const MeetingMessage& message);
MeetingMessage GetMeeting(WireReader* message);

// Sent when an emulation begins. Texts are views: into the sender's own strings when encoding, into
// the received message when decoded.
struct EmulateMessage {
  uint32_t number = 0;              // number of the emulation in this run
  std::string_view graph_bytes;     // as in graph.prism; its sandbox ranks are those to run
  std::string exchange;             // MeetingPoint::exchange
  uint16_t store_port = 0;          // MeetingPoint::store_port
  std::vector<int> worker_of;       // by sandbox rank
  std::vector<int> places_on_host;  // RunContext's
  bool on_gpus = false;             // whether process 0 has RunContext's gpu
  bool shares_gpu = false;          // RunContext's
  std::vector<Rank> log_ranks;      // shown live
  std::vector<Rank> snapshot_ranks;
  int32_t iterations = 0;
  int32_t rounds_left_out = 0;        // EmulationStart
  std::string_view values;            // the value book
  std::vector<uint64_t> value_bytes;  // by sandbox rank: bytes of the value book that it is given
};

// With the kind before it.
std::string Encode(const EmulateMessage& message);

// What follows the kind.
EmulateMessage GetEmulate(WireReader* message);

}  // namespace prism::launch
