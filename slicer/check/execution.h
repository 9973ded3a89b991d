// What the recorded ranks of a job would do together, without times but for the host's sleeps: each
// call begins when what it needs has ended, and ends when all that it meets have begun (a
// collective's members, a communicator's, a message's other end, one that sets a key). Ranks
// that were not recorded are taken to be there in time.
//
// The order in which things happen here is one of many, but what can happen at all does not depend
// on it: a call that has begun stays, and nothing is taken back.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "graph/base/time.h"
#include "slicer/check/calls.h"

namespace prism::slicer {

// Index of a recorded rank, and of one of its calls.
struct CallId {
  uint32_t rank = 0;
  uint32_t call = 0;

  auto operator<=>(const CallId&) const = default;
};

// Calls that have to meet. `expected`: recorded ranks that take part.
struct Meeting {
  CallKind kind = CallKind::kCollective;
  std::vector<CallId> calls = {};       // in the order of ranks
  std::vector<uint32_t> expected = {};  // ascending indices of ranks
  uint32_t number = 0;                  // of the communicator's collectives, or of messages, from 0
  std::optional<CallId> reader = {};    // of a key: waits for the first of the others, which set it
  std::optional<CallId> sender = {};    // of a message, as the next
  int64_t sent_bytes = 0;               // -1: not known
  int64_t received_bytes = 0;
  uint32_t begun = 0;
  bool differs = false;  // all have begun, and they do not go together
  TimeNs end_ns = -1;    // -1: it has not taken place
};

class Execution {
 public:
  // `ranks`: by rank; they must outlive it. With `buffers_sends` a small send ends when it has
  // begun.
  Execution(std::span<const RankCalls> ranks, bool buffers_sends);

  void Run();

  [[nodiscard]] std::span<const RankCalls> ranks() const { return ranks_; }
  [[nodiscard]] const std::vector<Meeting>& meetings() const { return meetings_; }

  // Meetings whose calls do not go together, in the order in which they were found.
  [[nodiscard]] const std::vector<uint32_t>& differing() const { return differing_; }

  // Meetings whose calls one of the ranks waited for longer than its group allows.
  struct Late {
    uint32_t meeting = 0;
    DurationNs waited_ns = 0;
    TimeNs deadline_ns = 0;
    CallId waiting = {};  // the one that began first
    CallId last = {};     // that ends the wait
  };
  [[nodiscard]] const std::vector<Late>& late() const { return late_; }

  [[nodiscard]] const Call& CallOf(CallId id) const { return ranks_[id.rank].calls[id.call]; }
  // That a call is made on; of several transfers, the first one's.
  [[nodiscard]] const CalledCommunicator& CommunicatorOf(CallId id) const;
  // Of a call on a communicator or of the store; 0: not known.
  [[nodiscard]] DurationNs TimeoutOf(CallId id) const;
  [[nodiscard]] bool HasBegun(CallId id) const { return StateOf(id).begin_ns >= 0; }
  [[nodiscard]] bool HasEnded(CallId id) const { return StateOf(id).end_ns >= 0; }
  [[nodiscard]] const std::vector<uint32_t>& MeetingsOf(CallId id) const {
    return StateOf(id).meetings;
  }

  [[nodiscard]] uint16_t StreamsOf(uint32_t rank) const {
    return static_cast<uint16_t>(states_[rank].streams.size());
  }
  // The first call of a stream that has not ended.
  [[nodiscard]] std::optional<CallId> FirstOpen(uint32_t rank, uint16_t stream) const;

  // A need of the call that is not met, as the call that has to end first.
  [[nodiscard]] std::optional<CallId> Obstacle(CallId id) const;

 private:
  struct CallState {
    std::vector<uint32_t> meetings;
    uint32_t open = 0;  // meetings that it waits for
    TimeNs begin_ns = -1;
    TimeNs end_ns = -1;
  };

  struct Stream {
    std::vector<uint32_t> calls;
    std::vector<TimeNs> ends;  // of the calls up to each that has ended with all before it
    uint32_t next = 0;         // first that has not begun
    bool is_thread = false;    // nothing overtakes
  };

  struct RankState {
    std::vector<CallState> calls;
    std::vector<Stream> streams;
    bool waiting = false;  // in open_
  };

  [[nodiscard]] const CallState& StateOf(CallId id) const {
    return states_[id.rank].calls[id.call];
  }
  void AddStreams(uint32_t rank);
  void AddMeetings();
  std::vector<int64_t> KeyOf(CallId id, std::vector<Rank>* members);
  [[nodiscard]] Meeting NewMeeting(CallKind kind, const std::vector<Rank>& members) const;
  Meeting& Join(const std::vector<int64_t>& key, const std::vector<Rank>& members, CallId id);
  void JoinTransfers(CallId id);
  void AddKeys();
  [[nodiscard]] bool IsBuffered(const Meeting& meeting, CallId id) const;
  [[nodiscard]] bool WaitsIn(const Meeting& meeting, CallId id) const;
  void Advance(uint32_t rank);
  [[nodiscard]] bool IsReady(uint32_t rank, const Call& call) const;
  void Begin(CallId id);
  void Meet(uint32_t meeting);
  void EndMeeting(uint32_t meeting);
  [[nodiscard]] std::optional<CallId> SetterOf(const Meeting& meeting) const;
  bool ReadNextKey();
  void End(CallId id, TimeNs end_ns);
  void SeeLate(uint32_t meeting);
  [[nodiscard]] TimeNs IssueOf(CallId id) const;
  [[nodiscard]] bool GoTogether(const Meeting& meeting) const;

  std::span<const RankCalls> ranks_;
  bool buffers_sends_;
  std::map<Rank, uint32_t> index_of_;
  std::set<uint64_t> hidden_;  // communicators of which some member hides calls
  std::vector<RankState> states_;
  std::vector<Meeting> meetings_;
  std::vector<uint32_t> differing_;
  std::vector<Late> late_;
  std::vector<uint32_t> keys_;  // meetings
  std::deque<uint32_t> open_;   // ranks that may go on
  // While meetings are made: by what identifies them, how many collectives a rank has called on a
  // communicator, how many sends and receives there were between two ranks.
  std::map<std::vector<int64_t>, uint32_t> known_;
  std::map<std::pair<uint32_t, int64_t>, int64_t> counts_;
  std::map<std::vector<int64_t>, std::pair<int64_t, int64_t>> messages_;
};

}  // namespace prism::slicer
