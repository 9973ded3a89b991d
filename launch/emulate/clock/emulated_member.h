// A sandbox rank of an EmulationWorker: its process, and how far it has come.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "launch/emulate/clock/emulated_rounds.h"
#include "launch/emulate/clock/emulation_worker.h"
#include "launch/emulate/clock/hold_streams.h"
#include "launch/emulate/clock/host_clock.h"
#include "launch/emulate/clock/memory_history.h"
#include "launch/emulate/sandbox/out_of_memory.h"
#include "launch/emulate/sandbox/stall_watch.h"
#include "slicer/record/op_stream.h"

namespace prism::launch {

struct EmulationWorker::Member {
  Rank rank;
  std::unique_ptr<SandboxProcess> process;
  slicer::OpStream stream;
  Verifier verifier;
  OutOfMemoryWatch memory_watch;
  StallWatch stall_watch;
  HostClock clock;
  EmulatedRounds rounds;
  // Requests not answered yet: position of the host, by request.
  std::map<uint32_t, replayer::OpPosition> asked = {};
  // The process's own clock when the first iteration began, which is time 0 of the graph: the host
  // costs of what it did before.
  DurationNs startup_ns = 0;
  // By event: the op that recorded it last.
  std::map<uint32_t, replayer::OpPosition> events = {};
  // Position of the host at the last poll, and the event polled.
  std::pair<replayer::OpPosition, replayer::OpPosition> last_poll = {-1, -1};
  int poll_count = 0;                       // in a row
  replayer::OpPosition waited_for = -1;     // the event that the host waited for last
  replayer::OpPosition reported = 0;        // position that process 0 knows
  bool departed = false;                    // nothing more is compared or reported
  bool runs_on = false;                     // departed by an op that it is not held in
  bool held = false;                        // departed, and waits for an answer that will not come
  uint32_t fence = 0;                       // request that it is held in; 0: in none
  std::optional<RankEvent> departure = {};  // found, not reported yet
  std::chrono::steady_clock::time_point departed_at = {};
  bool left = false;
  std::optional<MemoryHistory> history = {};  // if a snapshot is requested
  HoldStreams holds = {};                     // on a real GPU

  // What came before was another process's, none of it part of an iteration.
  void BeginAgain(slicer::OpStream new_stream) {
    stream = std::move(new_stream);
    rounds.BeginAgain();
    startup_ns = 0;
    events.clear();
    waited_for = -1;
    if (history) {
      history.emplace();
    }
  }
};

}  // namespace prism::launch
