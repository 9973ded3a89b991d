// Which sends and receives, and which collectives over stages, are one: by their order.
#pragma once

#include <cstdint>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "graph/base/status.h"
#include "graph/job_groups.h"
#include "replayer/stages/stage_plan.h"

namespace prism::replayer {

// What all stages share while they are laid out.
class StageMatching {
 public:
  StageMatching(const graph::ParallelSizes& sizes, StagePlan* plan) : sizes_(sizes), plan_(plan) {}

  uint32_t Post(const graph::PeerTransfer& transfer, int32_t stage) {
    const int32_t step = transfer.peer_slot == graph::SlotOf(graph::PeerSlot::kNext) ? 1 : -1;
    const int32_t peer = (stage + step + sizes_.pp) % sizes_.pp;
    const int32_t from = transfer.is_send ? stage : peer;
    const int32_t to = transfer.is_send ? peer : stage;
    Channel& channel = channels_[{transfer.comm_slot, from, to}];
    size_t& sequence = transfer.is_send ? channel.sent : channel.received;
    if (sequence == channel.messages.size()) {
      channel.messages.push_back(static_cast<uint32_t>(plan_->messages.size()));
      plan_->messages.push_back({transfer.comm_slot, from, to, 0, -1});
    }
    const uint32_t message = channel.messages[sequence++];
    if (transfer.is_send) {
      plan_->messages[message].bytes = transfer.bytes;
    }
    return message;
  }

  uint32_t Meet(uint16_t axis, int32_t stage, uint32_t transfer) {
    std::vector<uint32_t>& meetings = meetings_[axis];
    size_t& sequence = met_[{axis, stage}];
    if (sequence == meetings.size()) {
      meetings.push_back(static_cast<uint32_t>(plan_->meetings.size()));
      plan_->meetings.push_back({static_cast<graph::GroupAxis>(axis) == graph::GroupAxis::kEmbedding
                                     ? 2U
                                     : static_cast<uint32_t>(sizes_.pp),
                                 {}});
    }
    const uint32_t meeting = meetings[sequence++];
    plan_->meetings[meeting].transfers.emplace_back(stage, transfer);
    return meeting;
  }

  [[nodiscard]] Status Check() const {
    for (const auto& [key, channel] : channels_) {
      if (channel.sent != channel.received) {
        return InvalidArgument(fmt::format("stage {} sends {} messages to stage {}, which takes {}",
                                           std::get<1>(key), channel.sent, std::get<2>(key),
                                           channel.received));
      }
    }
    for (const auto& [axis, meetings] : meetings_) {
      for (const uint32_t meeting : meetings) {
        const StageMeeting& met = plan_->meetings[meeting];
        if (met.transfers.size() != met.members) {
          return InvalidArgument(
              fmt::format("{} of {} stages join a collective of the group {}", met.transfers.size(),
                          met.members, graph::GroupAxisName(static_cast<graph::GroupAxis>(axis))));
        }
      }
    }
    return OkStatus();
  }

 private:
  struct Channel {
    std::vector<uint32_t> messages;
    size_t sent = 0;
    size_t received = 0;
  };

  graph::ParallelSizes sizes_;
  StagePlan* plan_;
  std::map<std::tuple<uint16_t, int32_t, int32_t>, Channel> channels_;
  std::map<uint16_t, std::vector<uint32_t>> meetings_;  // by axis, in order
  std::map<std::pair<uint16_t, int32_t>, size_t> met_;  // by axis and stage
};

}  // namespace prism::replayer
