// What a rank communicates until its program is steady, as numbers of calls (graph::EarlyCalls). A
// rank that waits at that point for calls that its peers never make would hang on the cluster.
#pragma once

#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

#include "graph/base/ids.h"
#include "graph/fragment.h"
#include "shim/channel/messages.h"
#include "slicer/record/op_tables.h"

namespace prism::slicer {

class EarlyCounter {
 public:
  explicit EarlyCounter(Rank self) : self_(self) {}

  // `communicator`: the call's, or null if there is none; calls on one with unknown members are
  // left out. `iteration`: -1 before the first.
  void AddCollective(const channel::CollectiveBody& body,
                     const RecordedCommunicator* communicator,
                     int32_t iteration);

  // A kPeerTransfer; counts once the group on its thread ends.
  void AddTransfer(const channel::Record& record, const RecordedCommunicator* communicator);
  void EndGroup(uint16_t thread, int32_t iteration);

  // Moves the counts up to iteration `last` into `fragment`; leaves this empty.
  void MoveInto(int32_t last, graph::Fragment* fragment);

 private:
  // Iteration, kind of call, kind, root, group.
  using Key =
      std::tuple<int32_t, graph::EarlySort, graph::CollectiveKind, int32_t, graph::EarlyGroup>;

  Rank self_;
  std::map<Key, int64_t> counts_;
  std::map<uint16_t, std::vector<std::vector<Rank>>> pending_;  // by thread: sender and receiver
};

}  // namespace prism::slicer
