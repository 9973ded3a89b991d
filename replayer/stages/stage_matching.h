// Matches sends with receives, and collectives over stages with each other, by their order.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "graph/base/status.h"
#include "graph/program/job_groups.h"
#include "replayer/stages/stage_plan.h"

namespace prism::replayer {

// State shared by all stages while they are laid out.
class StageMatching {
 public:
  StageMatching(const graph::ParallelSizes& sizes, StagePlan* plan) : sizes_(sizes), plan_(plan) {}

  uint32_t Post(const graph::PeerTransfer& transfer, int32_t stage) {
    const uint32_t id = ChannelOf(transfer, stage);
    Channel& channel = channels_[id];
    uint32_t& sequence = transfer.is_send ? channel.sent : channel.received;
    if (sequence == channel.messages.size()) {
      channel.messages.push_back(static_cast<uint32_t>(plan_->messages.size()));
      plan_->messages.push_back({.channel = id});
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
    for (size_t id = 0; id < channels_.size(); ++id) {
      const Channel& channel = channels_[id];
      if (channel.sent != channel.received) {
        return InvalidArgument(fmt::format("stage {} sends {} messages to stage {}, which takes {}",
                                           plan_->channels[id].from, channel.sent,
                                           plan_->channels[id].to, channel.received));
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
    uint32_t sent = 0;
    uint32_t received = 0;
  };

  // Neighbours form a ring; with two stages both neighbours are one rank, and both directions one
  // channel.
  uint32_t ChannelOf(const graph::PeerTransfer& transfer, int32_t stage) {
    const bool next = transfer.peer_slot == graph::SlotOf(graph::PeerSlot::kNext);
    const int32_t peer = (stage + (next ? 1 : -1) + sizes_.pp) % sizes_.pp;
    const int32_t from = transfer.is_send ? stage : peer;
    const size_t way = sizes_.pp > 2 && next != transfer.is_send ? 1 : 0;
    const size_t place =
        (size_t{transfer.comm_slot} * static_cast<size_t>(sizes_.pp) + static_cast<size_t>(from)) *
            2 +
        way;
    if (place >= channel_at_.size()) {
      channel_at_.resize(place + 1, kNone);
    }
    if (channel_at_[place] == kNone) {
      channel_at_[place] = static_cast<uint32_t>(channels_.size());
      channels_.emplace_back();
      plan_->channels.push_back({transfer.comm_slot, from, transfer.is_send ? peer : stage});
    }
    return channel_at_[place];
  }

  graph::ParallelSizes sizes_;
  StagePlan* plan_;
  std::vector<Channel> channels_;                       // as StagePlan::channels
  std::vector<uint32_t> channel_at_;                    // by axis, sender and way
  std::map<uint16_t, std::vector<uint32_t>> meetings_;  // by axis, in order
  std::map<std::pair<uint16_t, int32_t>, size_t> met_;  // by axis and stage
};

}  // namespace prism::replayer
