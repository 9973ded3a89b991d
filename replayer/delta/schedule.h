// The order of a whole job: what every class does, action by action, and which of them meet where.
// It follows only from the graph, so a replay with different durations need not search for what can
// advance: actions are executed in order, meetings settle in order.
//
// Times that an action reads or writes have registers: the tail of each stream first, then host
// time by segment and events, each only as long as it will still be read. A lane's future therefore
// depends on nothing but its registers.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "replayer/cost/collective_cost.h"
#include "replayer/engine/action.h"
#include "replayer/engine/partition.h"
#include "replayer/replay.h"

namespace prism::replayer {

struct ScheduledAction {
  Action action;
  uint32_t base = 0;        // register of the host time that issues the op
  uint32_t target = kNone;  // register written: an event (kRecord) or host time (kHostWait)
  uint32_t source = kNone;  // of the event waited for (kWait, kHostWait)
  uint32_t hold = kNone;    // kArrive, kFinish
};

enum class TransferSide : uint8_t { kCollective, kSend, kEagerSend, kReceive };

// One class's part in a meeting.
struct ScheduledTransfer {
  uint32_t meeting = 0;
  uint32_t index = 0;  // call or post of the plan
  uint32_t hold = 0;
  TransferSide side = TransferSide::kCollective;
  uint16_t comm_slot = 0;  // of a collective
};

// A stream held at a collective or peer group: from a kArrive to a kFinish.
struct ScheduledHold {
  uint32_t arrive = 0;  // action
  uint32_t begin = 0;   // transfers [begin, end)
  uint32_t end = 0;
};

// A place between two actions at which a lane's state may be kept: every stream that has not ended
// is held at a transfer.
struct Cut {
  uint32_t position = 0;  // of the next action
  uint32_t settled = 0;   // all meetings completed for the class have lower numbers
  std::vector<std::pair<uint16_t, uint32_t>> holding;  // (stream, hold)
};

struct ClassSchedule {
  std::vector<ScheduledAction> actions;
  std::vector<ScheduledHold> holds;
  std::vector<ScheduledTransfer> transfers;
  std::vector<Cut> cuts;                         // ascending; the first at 0
  std::vector<std::vector<uint32_t>> of_stream;  // actions that execute steps, ascending
  std::vector<uint32_t> host_waits;              // actions, ascending
  std::vector<uint32_t> starts;                  // by iteration: kStart; empty: no stream at all
  std::vector<uint32_t> start_registers;         // for a class without streams: host time by
                                                 // iteration
  uint32_t register_count = 0;
  uint32_t first_register = 0;  // of host time at the beginning
  uint32_t last_register = 0;   // at the end
};

// The classes of a meeting; for a message the sender, then the receiver.
struct Party {
  uint32_t class_index = 0;
  uint32_t transfer = 0;  // of the class
};

// A collective of all communicators of a class, or a message of all lanes of a channel.
struct Meeting {
  uint32_t comm_class = kNone;  // kNone: a message
  uint32_t first_party = 0;
  uint32_t party_count = 0;
};

// The actions of a class up to `end` are executed next.
struct Turn {
  uint32_t class_index = 0;
  uint32_t end = 0;
};

struct RecordedOrder {
  std::vector<ClassSchedule> classes;
  std::vector<Meeting> meetings;  // in the order in which they settle
  std::vector<Party> parties;
  std::vector<Turn> turns;

  [[nodiscard]] std::span<const Party> parties_of(const Meeting& meeting) const {
    return {parties.data() + meeting.first_party, meeting.party_count};
  }
};

// Nothing where the job stalls.
std::optional<RecordedOrder> MakeSchedule(const Partition& partition,
                                          const ReplayOptions& options,
                                          const CollectiveCost& cost);

}  // namespace prism::replayer
