// Where classes meet: collectives by communicator class and sequence number, sends and receives by
// channel and order. A stream that arrives holds (Hold) until its transfer is known; the last to
// arrive settles it for all. The result does not depend on the order of calls.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/base/time.h"
#include "replayer/partition.h"

namespace prism::replayer {

struct TimeRange {
  TimeNs begin = 0;
  TimeNs end = 0;
};

// One stream of one class in front of a collective or a peer group; at most one a stream.
struct Hold {
  uint32_t owner = 0;                // class
  uint32_t open = 0;                 // transfers not settled yet; 0: the stream may go on
  TimeNs arrival = 0;                // when the stream reached the op
  TimeNs start = 0;                  // latest start of its transfers
  TimeNs end = 0;                    // latest end
  std::vector<TimeRange> transfers;  // each
};

// Reference to a Hold, dense over all streams of all classes.
using HoldId = uint32_t;

struct CollectiveArrival {
  CommEntry entry;
  int64_t sequence = 0;  // on the communicator, over all iterations
  HoldId hold = 0;
  DurationNs transfer_ns = 0;
};

struct PeerArrival {
  uint32_t channel = 0;
  bool is_send = false;
  bool eager = false;    // of a send: does not wait
  int64_t sequence = 0;  // on the channel and side, over all iterations
  HoldId hold = 0;
  DurationNs transfer_ns = 0;  // the sender's counts
};

// Who a collective still waits for.
struct MissingEntry {
  uint32_t comm_class = 0;
  uint32_t entry = 0;
};

class Rendezvous {
 public:
  Rendezvous(const Partition& partition, uint32_t hold_count);

  [[nodiscard]] Hold& hold(HoldId id) { return holds_[id]; }
  [[nodiscard]] const Hold& hold(HoldId id) const { return holds_[id]; }

  // Prepares a hold for `count` transfers that arrive at `arrival`.
  void Open(HoldId id, TimeNs arrival, uint32_t count);

  void Arrive(const CollectiveArrival& arrival);
  void Arrive(const PeerArrival& arrival);

  // Holds that were settled by somebody else since the last call, moved out. Order is of no
  // consequence.
  void TakeSettled(std::vector<HoldId>* settled);

  // Entries of the communicator class that have not arrived at `sequence`, for messages.
  [[nodiscard]] std::vector<uint32_t> MissingEntries(uint32_t comm_class, int64_t sequence) const;

 private:
  // One collective that some members have reached.
  struct Meeting {
    int64_t sequence = 0;
    TimeNs latest = 0;
    DurationNs transfer_ns = 0;
    std::vector<HoldId> holds;
    std::vector<uint32_t> entries;
  };

  // A send or receive without its other side.
  struct Post {
    int64_t sequence = 0;
    TimeNs arrival = 0;
    DurationNs transfer_ns = 0;
    HoldId hold = 0;
    bool eager = false;
  };

  // Waiting posts of one side, oldest first, from `head` on.
  struct PostQueue {
    std::vector<Post> posts;
    size_t head = 0;
  };

  void Settle(HoldId id, TimeRange transfer);
  void Match(const Post& send, const Post& receive);
  static bool Take(PostQueue* queue, int64_t sequence, Post* post);

  const Partition& partition_;
  std::vector<Hold> holds_;
  std::vector<std::vector<Meeting>> meetings_;  // by communicator class; open ones
  std::vector<Meeting> spare_;                  // storage of settled meetings
  std::vector<PostQueue> queues_;               // by 2 * channel + (receive ? 1 : 0)
  std::vector<HoldId> settled_;
};

}  // namespace prism::replayer
