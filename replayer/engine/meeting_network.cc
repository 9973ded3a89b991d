// Transfers between nodes that are left to a network: reached here, completed when the network
// reports their end.
#include <algorithm>
#include <utility>

#include "replayer/engine/meeting.h"

namespace prism::replayer {

namespace {

void Keep(std::vector<DurationNs>* times, int64_t sequence, DurationNs duration_ns) {
  const auto index = static_cast<size_t>(sequence);
  times->resize(std::max(times->size(), index + 1));
  (*times)[index] = duration_ns;
}

}  // namespace

void Meetings::LeaveToNetwork(TransferTimes* times) {
  times_ = times;
  times->collectives.resize(meetings_.size());
  times->sends.resize(queues_.size() / 2);
  last_transfers_.resize(meetings_.size());
}

void Meetings::TakeReady(std::vector<ReadyTransfer>* ready) {
  const std::lock_guard<std::mutex> lock(mutex_);
  ready->swap(ready_);
  ready_.clear();
}

void Meetings::SettleOrDefer(Meeting* meeting, uint32_t comm_class) {
  if (partition_.comm_classes[comm_class].topology.nodes > 1) {
    if (times_ != nullptr) {
      DeferMeeting(meeting, comm_class);
      return;
    }
    if (frozen_ != nullptr) {
      meeting->transfer_ns =
          frozen_->collectives[comm_class][static_cast<size_t>(meeting->sequence)];
    }
  }
  SettleMeeting(*meeting);
}

void Meetings::MatchOrDefer(const Post& send, const Post& receive) {
  if (times_ == nullptr || send.eager || send.channel->reach != PeerLoad::Reach::kNetwork) {
    Match(send, receive);
  } else {
    DeferSend(send, &receive);
  }
}

TransferId Meetings::NewDeferred(TimeNs start) {
  if (unused_.empty()) {
    unused_.push_back(static_cast<TransferId>(deferred_.size()));
    deferred_.emplace_back();
  }
  const TransferId id = unused_.back();
  unused_.pop_back();
  deferred_[id].comm_class = kNone;
  deferred_[id].start = start;
  deferred_[id].next = kNone;
  return id;
}

// A transfer chained to the one before waits for the end of that.
void Meetings::DeferMeeting(Meeting* meeting, uint32_t comm_class) {
  LastTransfer& last = last_transfers_[comm_class];
  const bool chained = meeting->chained && last.sequence + 1 == meeting->sequence;
  const TimeNs reached = meeting->latest.front();
  const TransferId id = NewDeferred(chained ? std::max(reached, last.end) : reached);
  const TransferId before = chained ? last.id : kNone;
  last.id = id;
  last.sequence = meeting->sequence;
  last.end = 0;
  deferred_[id].comm_class = comm_class;
  std::swap(deferred_[id].meeting, *meeting);
  if (before == kNone) {
    Announce(id);
  } else {
    deferred_[before].next = id;
  }
}

void Meetings::DeferSend(const Post& send, const Post* receive) {
  const TransferId id = NewDeferred(ArrivalOf(send).front());
  Deferred& transfer = deferred_[id];
  transfer.send = send;
  if (receive != nullptr) {
    transfer.receive = *receive;
    transfer.start = std::max(transfer.start, ArrivalOf(*receive).front());
  }
  Announce(id);
}

void Meetings::Announce(TransferId id) {
  const Deferred& transfer = deferred_[id];
  ReadyTransfer ready;
  ready.id = id;
  ready.start = transfer.start;
  if (transfer.comm_class != kNone) {
    const CommClass& comm = partition_.comm_classes[transfer.comm_class];
    ready.alone_ns = transfer.meeting.own_ns;
    ready.shape = transfer.meeting.shape;
    ready.fixed = ready.shape == nullptr;
    ready.topology = &comm.topology;
    ready.comm = comm.representative.value();
  } else {
    const Post& send = transfer.send;
    ready.alone_ns = send.transfer_ns;
    ready.fixed = send.fixed;
    ready.sender = partition_.classes[holds_[send.hold].owner].representative.value();
    ready.receiver = send.channel->peer;
    ready.bytes = send.bytes;
    ready.slow_factor = send.channel->slow_factor;
  }
  ready_.push_back(ready);
}

void Meetings::Complete(TransferId id, TimeNs end) {
  const std::lock_guard<std::mutex> lock(mutex_);
  arriving_ = kNone;
  Deferred transfer = std::move(deferred_[id]);
  unused_.push_back(id);
  if (transfer.comm_class == kNone) {
    CompleteSend(&transfer, end);
  } else {
    CompleteMeeting(&transfer, id, end);
  }
}

void Meetings::CompleteMeeting(Deferred* transfer, TransferId id, TimeNs end) {
  Meeting& meeting = transfer->meeting;
  meeting.transfer_ns = end - meeting.latest.front();
  Keep(&times_->collectives[transfer->comm_class], meeting.sequence, meeting.transfer_ns);
  LastTransfer& last = last_transfers_[transfer->comm_class];
  if (last.id == id) {
    last.id = kNone;
    last.end = end;
  }
  SettleMeeting(meeting);
  spare_.push_back(std::move(meeting));
  if (transfer->next != kNone) {
    TimeNs& start = deferred_[transfer->next].start;
    start = std::max(start, end);
    Announce(transfer->next);
  }
}

void Meetings::CompleteSend(Deferred* transfer, TimeNs end) {
  Post& send = transfer->send;
  send.transfer_ns = end - transfer->start;
  send.fixed = true;  // the receiver's link was shared as well
  Keep(&times_->sends[send.channel->channel], send.sequence, send.transfer_ns);
  if (!send.eager) {
    Match(send, transfer->receive);
    return;
  }
  SettleAlone(send);
  Meet(std::move(send), true);
}

}  // namespace prism::replayer
