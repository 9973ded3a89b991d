#include "replayer/rendezvous.h"

#include <algorithm>
#include <utility>

namespace prism::replayer {

Rendezvous::Rendezvous(const Partition& partition, uint32_t hold_count)
    : partition_(partition),
      holds_(hold_count),
      meetings_(partition.comm_classes.size()),
      queues_(size_t{2} * partition.channel_count) {
}

void Rendezvous::Open(HoldId id, TimeNs arrival, uint32_t count) {
  Hold& hold = holds_[id];
  hold.open = count;
  hold.arrival = arrival;
  hold.start = arrival;
  hold.end = arrival;
  hold.transfers.clear();
}

void Rendezvous::Settle(HoldId id, TimeRange transfer) {
  Hold& hold = holds_[id];
  hold.start = std::max(hold.start, transfer.begin);
  hold.end = std::max(hold.end, transfer.end);
  hold.transfers.push_back(transfer);
  if (--hold.open == 0) {
    settled_.push_back(id);
  }
}

void Rendezvous::Arrive(const CollectiveArrival& arrival) {
  uint32_t entries = partition_.comm_classes[arrival.entry.comm_class].entry_count;
  TimeNs reached = holds_[arrival.hold].arrival;
  if (entries == 1) {
    Settle(arrival.hold, {reached, reached + arrival.transfer_ns});
    return;
  }
  std::vector<Meeting>& open = meetings_[arrival.entry.comm_class];
  auto meeting = std::find_if(open.begin(), open.end(),
                              [&](const Meeting& m) { return m.sequence == arrival.sequence; });
  if (meeting == open.end()) {
    if (!spare_.empty()) {
      open.push_back(std::move(spare_.back()));
      spare_.pop_back();
    } else {
      open.emplace_back();
    }
    meeting = std::prev(open.end());
    meeting->sequence = arrival.sequence;
    meeting->latest = reached;
    meeting->transfer_ns = arrival.transfer_ns;
    meeting->holds.clear();
    meeting->entries.clear();
  }
  meeting->latest = std::max(meeting->latest, reached);
  meeting->transfer_ns = std::max(meeting->transfer_ns, arrival.transfer_ns);
  meeting->holds.push_back(arrival.hold);
  meeting->entries.push_back(arrival.entry.entry);
  if (meeting->holds.size() < entries) {
    return;
  }
  TimeRange transfer = {meeting->latest, meeting->latest + meeting->transfer_ns};
  for (HoldId hold : meeting->holds) {
    Settle(hold, transfer);
  }
  spare_.push_back(std::move(*meeting));
  open.erase(meeting);
}

bool Rendezvous::Take(PostQueue* queue, int64_t sequence, Post* post) {
  std::vector<Post>& posts = queue->posts;
  for (size_t i = queue->head; i < posts.size(); ++i) {
    if (posts[i].sequence != sequence) {
      continue;
    }
    *post = posts[i];
    if (i > queue->head) {
      posts.erase(posts.begin() + static_cast<std::ptrdiff_t>(i));
    } else if (++queue->head == posts.size()) {
      posts.clear();
      queue->head = 0;
    }
    return true;
  }
  return false;
}

void Rendezvous::Match(const Post& send, const Post& receive) {
  TimeNs start = std::max(send.arrival, receive.arrival);
  if (!send.eager) {
    Settle(send.hold, {start, start + send.transfer_ns});
    Settle(receive.hold, {start, start + send.transfer_ns});
    return;
  }
  // The bytes were on their way before the receiver came.
  Settle(receive.hold, {start, std::max(receive.arrival, send.arrival + send.transfer_ns)});
}

void Rendezvous::Arrive(const PeerArrival& arrival) {
  TimeNs reached = holds_[arrival.hold].arrival;
  Post post = {arrival.sequence, reached, arrival.transfer_ns, arrival.hold, arrival.eager};
  if (arrival.is_send && arrival.eager) {
    Settle(arrival.hold, {reached, reached + arrival.transfer_ns});
  }
  if (arrival.channel == kNone) {
    return;  // nobody on the other side: an invalid graph, stays open
  }
  size_t own = size_t{2} * arrival.channel + (arrival.is_send ? 0 : 1);
  Post other;
  if (!Take(&queues_[own ^ 1U], arrival.sequence, &other)) {
    queues_[own].posts.push_back(post);
    return;
  }
  if (arrival.is_send) {
    Match(post, other);
  } else {
    Match(other, post);
  }
}

void Rendezvous::TakeSettled(std::vector<HoldId>* settled) {
  settled->swap(settled_);
  settled_.clear();
}

std::vector<uint32_t> Rendezvous::MissingEntries(uint32_t comm_class, int64_t sequence) const {
  std::vector<bool> arrived(partition_.comm_classes[comm_class].entry_count);
  for (const Meeting& meeting : meetings_[comm_class]) {
    if (meeting.sequence == sequence) {
      for (uint32_t entry : meeting.entries) {
        arrived[entry] = true;
      }
    }
  }
  std::vector<uint32_t> missing;
  for (uint32_t entry = 0; entry < arrived.size(); ++entry) {
    if (!arrived[entry]) {
      missing.push_back(entry);
    }
  }
  return missing;
}

}  // namespace prism::replayer
