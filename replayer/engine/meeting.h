// Where classes meet: collectives by communicator class and sequence number, sends and receives by
// channel and order. A stream that arrives is held (Hold) until its transfer is known; the last
// class to arrive settles it for all, lane by lane. The result does not depend on the order of
// calls.
//
// Several threads may call Arrive, each for its own holds; a hold's times may be read by its owner
// once `open` is 0.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

#include "graph/base/time.h"
#include "replayer/engine/lane_ranges.h"
#include "replayer/engine/lane_rows.h"
#include "replayer/engine/partition.h"

namespace prism::replayer {

// One stream of one class held at a collective or a peer group; at most one per stream.
struct Hold {
  uint32_t owner = 0;              // class
  std::atomic<uint32_t> open = 0;  // transfers not settled yet; 0: the stream may go on
  bool keeps_transfers = false;    // fill `transfers`
  std::vector<TimeNs> arrival;     // by lane: when the stream reached the op
  std::vector<TimeNs> start;       // latest start of its transfers
  std::vector<TimeNs> end;         // latest end
  // The first transfer_count are used (several may be joined into one); the rest is storage.
  std::vector<LaneRanges> transfers;
  size_t transfer_count = 0;
  DurationNs alone_ns = -1;        // the longest of its eager sends, which begin together
  std::vector<uint32_t> decisive;  // by lane: label of the transfer that ended last
  std::vector<uint32_t> last;      // by lane: the rank that came last to it; kNone: no collective
};

// Reference to a Hold, dense over all streams of all classes.
using HoldId = uint32_t;

struct CollectiveArrival {
  const CommEntry* entry = nullptr;
  int64_t sequence = 0;  // on the communicator, over all iterations
  HoldId hold = 0;
  DurationNs transfer_ns = 0;  // from the start of its group
  DurationNs own_ns = 0;       // of it
  bool chained = false;        // follows the one before on its communicator, in one group
  const graph::CollectiveShape* shape = nullptr;  // nullptr: its duration is fixed
  uint32_t label = 0;                             // of the transfer, in its program
};

struct PeerArrival {
  const ChannelEnd* channel = nullptr;
  bool is_send = false;
  bool eager = false;    // of a send: does not wait
  int64_t sequence = 0;  // on the channel and side, over all iterations
  HoldId hold = 0;
  DurationNs transfer_ns = 0;  // at this end; the longer one counts
  bool fixed = false;          // of a send: its duration counts, whatever the receiver's is
  uint32_t label = 0;          // of the transfer, in its program
  int64_t bytes = 0;
};

using TransferId = uint32_t;

// A transfer between nodes that all its members have reached and whose end the network determines:
// a collective, a send, or either with a fixed duration.
struct ReadyTransfer {
  TransferId id = 0;
  TimeNs start = 0;
  DurationNs alone_ns = 0;                        // of a collective, or fixed
  bool fixed = false;                             // its duration is given, whatever else uses the
                                                  // network
  const graph::CollectiveShape* shape = nullptr;  // of a collective
  const CommTopology* topology = nullptr;         // likewise
  uint32_t comm = kNone;                          // likewise; kNone: a send
  uint32_t sender = 0;                            // ranks of a send
  uint32_t receiver = 0;
  int64_t bytes = 0;       // of a send
  double slow_factor = 1;  // of its slowest link
};

// How long each transfer between nodes took on a network, from its start.
struct TransferTimes {
  std::vector<std::vector<DurationNs>> collectives;  // by communicator class and sequence
  std::vector<std::vector<DurationNs>> sends;        // by channel and sequence
};

class Meetings {
 public:
  Meetings(const Partition& partition, uint32_t hold_count);

  // From here on holds record what determined their end.
  void KeepCauses() { keeps_causes_ = true; }

  // Transfers between nodes are not settled when they are reached: TakeReady hands them out,
  // Complete settles them. Every class must have one lane. `times` is filled as they end.
  void LeaveToNetwork(TransferTimes* times);

  // Transfers between nodes take as long as in `times`, from a partition with the same classes.
  void Freeze(const TransferTimes* times) { frozen_ = times; }

  // Whether a network, now or before, determines how long transfers between nodes take.
  [[nodiscard]] bool by_network() const { return times_ != nullptr || frozen_ != nullptr; }

  // Transfers reached since the last call, in an order that depends only on the order of calls.
  void TakeReady(std::vector<ReadyTransfer>* ready);

  // The transfer ends at `end`.
  void Complete(TransferId id, TimeNs end);

  [[nodiscard]] Hold& hold(HoldId id) { return holds_[id]; }
  [[nodiscard]] const Hold& hold(HoldId id) const { return holds_[id]; }

  // Allocates storage for a hold with that many lanes and up to that many transfers at a time.
  void Reserve(HoldId id, size_t lanes, size_t transfers);

  // Prepares a hold, whose arrival is filled, for `count` transfers.
  void Open(HoldId id, uint32_t count);

  void Arrive(const CollectiveArrival& arrival);
  void Arrive(const PeerArrival& arrival);

  // Moves out the holds settled since the last call, except those that settled on their own
  // arrival. The order does not matter.
  void TakeSettled(std::vector<HoldId>* settled);

  // Entries of the communicator class that have not arrived at `sequence`, for messages.
  [[nodiscard]] std::vector<uint32_t> MissingEntries(uint32_t comm_class, int64_t sequence) const;

 private:
  // One class's part in a collective.
  struct Member {
    HoldId hold = 0;
    const CommEntry* entry = nullptr;
    uint32_t label = 0;
  };

  // One collective that some members have reached, for all communicators of a class together.
  struct Meeting {
    int64_t sequence = 0;
    DurationNs transfer_ns = 0;
    DurationNs own_ns = 0;
    bool chained = false;
    const graph::CollectiveShape* shape = nullptr;
    std::vector<TimeNs> latest;  // by instance
    std::vector<uint32_t> last;  // by instance: the lowest rank that came then; with causes
    std::vector<Member> members;
  };

  // A send or receive whose other side has not arrived.
  struct Post {
    int64_t sequence = 0;
    std::vector<TimeNs> arrival;  // by lane, of a waiting eager send, whose hold has moved on
    DurationNs transfer_ns = 0;
    HoldId hold = 0;
    bool eager = false;
    bool fixed = false;
    const ChannelEnd* channel = nullptr;
    uint32_t label = 0;
    int64_t bytes = 0;
  };

  // Waiting posts of one side, oldest first, from `head` on.
  struct PostQueue {
    std::vector<Post> posts;
    size_t head = 0;
  };

  // By lane: when the stream of a waiting post reached it.
  [[nodiscard]] const std::vector<TimeNs>& ArrivalOf(const Post& post) const {
    return post.arrival.empty() ? holds_[post.hold].arrival : post.arrival;
  }

  // Where the next transfer of the hold is to be written; then call Settle, with the ranks that
  // came last in last_.
  TransferRows NextTransfer(Hold* hold);
  void Settle(HoldId id, uint32_t label);
  void NoteCause(Hold* hold, uint32_t label) const;
  void JoinLast(Hold* hold);
  void NoteArrival(Meeting* meeting, const CommEntry& entry, const Hold& hold) const;

  // A transfer that was handed to the network.
  struct Deferred {
    uint32_t comm_class = kNone;  // of a collective
    Meeting meeting;
    Post send;  // without a receiver where it is eager
    Post receive;
    TimeNs start = 0;
    TransferId next = kNone;  // starts when this one ends
  };

  // The last transfer of a communicator class that was given to the network.
  struct LastTransfer {
    TransferId id = kNone;  // kNone: it has ended
    int64_t sequence = -1;
    TimeNs end = 0;
  };

  TransferId NewDeferred(TimeNs start);
  void DeferMeeting(Meeting* meeting, uint32_t comm_class);
  void DeferSend(const Post& send, const Post* receive);
  void Announce(TransferId id);
  void CompleteMeeting(Deferred* transfer, TransferId id, TimeNs end);
  void CompleteSend(Deferred* transfer, TimeNs end);

  // The hold's transfer begins at its arrival.
  void SettleAlone(const Post& send);
  Meeting& MeetingAt(uint32_t comm_class, int64_t sequence);
  void SettleMeeting(const Meeting& meeting);
  void SettleOrDefer(Meeting* meeting, uint32_t comm_class);
  void Meet(Post post, bool is_send);
  void MatchOrDefer(const Post& send, const Post& receive);
  void Match(const Post& send, const Post& receive);
  static bool Take(PostQueue* queue, int64_t sequence, Post* post);

  const Partition& partition_;
  std::mutex mutex_;  // guards all below but what a hold's owner may read
  std::vector<Hold> holds_;
  std::vector<std::vector<Meeting>> meetings_;  // by communicator class; open ones
  std::vector<Meeting> spare_;                  // storage of settled meetings
  std::vector<PostQueue> queues_;               // by 2 * channel + (receive ? 1 : 0)
  std::vector<HoldId> settled_;
  HoldId arriving_ = kNone;          // its owner notices if it is settled by arriving
  LaneRanges joined_;                // storage
  LaneRanges transfer_;              // scratch for a transfer that its hold does not keep
  TransferRows written_;             // the transfer that is being settled
  std::vector<TimeNs> ends_before_;  // of its hold; with causes
  bool keeps_causes_ = false;
  std::vector<uint32_t> last_;  // of the same transfer; empty for sends and receives

  TransferTimes* times_ = nullptr;         // set: the network owns transfers between nodes
  const TransferTimes* frozen_ = nullptr;  // set: they take as long as recorded there
  std::vector<Deferred> deferred_;         // by id
  std::vector<TransferId> unused_;         // of these
  std::vector<ReadyTransfer> ready_;
  std::vector<LastTransfer> last_transfers_;  // by communicator class
};

}  // namespace prism::replayer
