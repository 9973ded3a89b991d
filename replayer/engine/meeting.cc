#include "replayer/engine/meeting.h"

#include <algorithm>
#include <utility>

namespace prism::replayer {

Meetings::Meetings(const Partition& partition, uint32_t hold_count)
    : partition_(partition),
      holds_(hold_count),
      meetings_(partition.comm_classes.size()),
      queues_(size_t{2} * partition.channel_count) {
}

void Meetings::Open(HoldId id, uint32_t count) {
  Hold& hold = holds_[id];
  hold.start = hold.arrival;
  hold.end = hold.arrival;
  hold.transfer_count = 0;
  hold.alone_ns = -1;
  if (keeps_causes_) {
    hold.decisive.assign(hold.arrival.size(), kNone);
    hold.last.assign(hold.arrival.size(), kNone);
  }
  hold.open.store(count, std::memory_order_relaxed);
}

void Meetings::Reserve(HoldId id, size_t lanes, size_t transfers) {
  Hold& hold = holds_[id];
  hold.arrival.resize(lanes);
  hold.start.resize(lanes);
  hold.end.resize(lanes);
  hold.transfers.resize(transfers);
  for (LaneRanges& ranges : hold.transfers) {
    ranges.Resize(lanes);
  }
}

TransferRows Meetings::NextTransfer(Hold* hold) {
  if (hold->keeps_transfers && hold->transfers.size() == hold->transfer_count) {
    hold->transfers.emplace_back();
  }
  LaneRanges& ranges = hold->keeps_transfers ? hold->transfers[hold->transfer_count++] : transfer_;
  ranges.Resize(hold->arrival.size());
  if (keeps_causes_) {
    ends_before_ = hold->end;
  }
  written_ = {ranges.begin(), ranges.end(), hold->start.data(), hold->end.data()};
  return written_;
}

// Most transfers of a hold overlap in all lanes, and are then kept as one.
void Meetings::JoinLast(Hold* hold) {
  if (hold->transfer_count < 2 || !hold->keeps_transfers) {
    return;
  }
  LaneRanges& before = hold->transfers[hold->transfer_count - 2];
  joined_.Resize(before.lanes());
  if (JoinRow(before, hold->transfers[hold->transfer_count - 1], &joined_)) {
    std::swap(before, joined_);
    --hold->transfer_count;
  }
}

// Of transfers that end together the first in the program decides, in whatever order they are
// settled.
void Meetings::NoteCause(Hold* hold, uint32_t label) const {
  for (size_t lane = 0; lane < hold->arrival.size(); ++lane) {
    const TimeNs end = written_.end[lane];
    const bool later = end > ends_before_[lane];
    if (later || (end == ends_before_[lane] && label < hold->decisive[lane])) {
      hold->decisive[lane] = label;
      hold->last[lane] = last_.empty() ? kNone : last_[lane];
    }
  }
}

void Meetings::Settle(HoldId id, uint32_t label) {
  Hold& hold = holds_[id];
  if (keeps_causes_) {
    NoteCause(&hold, label);
  }
  if (hold.open.fetch_sub(1, std::memory_order_release) == 1 && id != arriving_) {
    settled_.push_back(id);
  }
}

// Of several sends from one hold only the longest matters, unless causes are kept.
void Meetings::SettleAlone(const Post& send) {
  Hold& hold = holds_[send.hold];
  if (send.transfer_ns > hold.alone_ns || keeps_causes_) {
    SettleRow(hold.arrival.data(), nullptr, send.transfer_ns, NextTransfer(&hold),
              hold.arrival.size());
    JoinLast(&hold);
    hold.alone_ns = send.transfer_ns;
  }
  Settle(send.hold, send.label);
}

Meetings::Meeting& Meetings::MeetingAt(uint32_t comm_class, int64_t sequence) {
  std::vector<Meeting>& open = meetings_[comm_class];
  auto found = std::ranges::find(open, sequence, &Meeting::sequence);
  if (found != open.end()) {
    return *found;
  }
  if (spare_.empty()) {
    spare_.emplace_back();
  }
  Meeting& meeting = open.emplace_back(std::move(spare_.back()));
  spare_.pop_back();
  meeting.sequence = sequence;
  meeting.latest.assign(partition_.comm_classes[comm_class].instances, 0);
  if (keeps_causes_) {
    meeting.last.assign(meeting.latest.size(), kNone);
  }
  meeting.transfer_ns = 0;
  meeting.own_ns = 0;
  meeting.chained = false;
  meeting.members.clear();
  return meeting;
}

void Meetings::SettleMeeting(const Meeting& meeting) {
  for (const Member& member : meeting.members) {
    const std::vector<uint32_t>& instance_of = member.entry->instance_of;
    SettleRow(meeting.latest.data(), instance_of.data(), meeting.transfer_ns,
              NextTransfer(&holds_[member.hold]), instance_of.size());
    if (keeps_causes_) {
      last_.resize(instance_of.size());
      std::transform(instance_of.begin(), instance_of.end(), last_.begin(),
                     [&](uint32_t instance) { return meeting.last[instance]; });
    }
    Settle(member.hold, member.label);
  }
  last_.clear();
}

void Meetings::NoteArrival(Meeting* meeting, const CommEntry& entry, const Hold& hold) const {
  const std::vector<Rank>& ranks = partition_.classes[hold.owner].lanes;
  for (size_t lane = 0; lane < ranks.size(); ++lane) {
    const uint32_t instance = entry.instance_of[lane];
    const TimeNs reached = hold.arrival[lane];
    uint32_t& last = meeting->last[instance];
    TimeNs& latest = meeting->latest[instance];
    if (reached > latest || (reached == latest && ranks[lane].value() < last)) {
      latest = reached;
      last = ranks[lane].value();
    }
  }
}

void Meetings::Arrive(const CollectiveArrival& arrival) {
  const std::lock_guard<std::mutex> lock(mutex_);
  arriving_ = arrival.hold;
  const CommEntry& entry = *arrival.entry;
  Meeting& meeting = MeetingAt(entry.comm_class, arrival.sequence);
  if (keeps_causes_) {
    NoteArrival(&meeting, entry, holds_[arrival.hold]);
  }
  const std::vector<TimeNs>& reached = holds_[arrival.hold].arrival;
  if (meeting.latest.size() == 1) {
    meeting.latest[0] = std::max(meeting.latest[0], LargestOf(reached.data(), reached.size()));
  } else {
    for (size_t lane = 0; lane < reached.size(); ++lane) {
      TimeNs& latest = meeting.latest[entry.instance_of[lane]];
      latest = std::max(latest, reached[lane]);
    }
  }
  meeting.transfer_ns = std::max(meeting.transfer_ns, arrival.transfer_ns);
  meeting.own_ns = std::max(meeting.own_ns, arrival.own_ns);
  meeting.chained = meeting.chained || arrival.chained;
  meeting.shape = arrival.shape;
  meeting.members.push_back({arrival.hold, &entry, arrival.label});
  if (meeting.members.size() < partition_.comm_classes[entry.comm_class].entry_count) {
    return;
  }
  SettleOrDefer(&meeting, entry.comm_class);
  spare_.push_back(std::move(meeting));
  std::vector<Meeting>& open = meetings_[entry.comm_class];
  open.erase(open.begin() + (&meeting - open.data()));
}

bool Meetings::Take(PostQueue* queue, int64_t sequence, Post* post) {
  std::vector<Post>& posts = queue->posts;
  for (size_t i = queue->head; i < posts.size(); ++i) {
    if (posts[i].sequence != sequence) {
      continue;
    }
    *post = std::move(posts[i]);
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

void Meetings::Match(const Post& send, const Post& receive) {
  const DurationNs transfer_ns =
      send.fixed ? send.transfer_ns : std::max(send.transfer_ns, receive.transfer_ns);
  const std::vector<TimeNs>& sent = ArrivalOf(send);
  const std::vector<TimeNs>& reached = ArrivalOf(receive);
  const MatchRows received = {reached.data(), sent.data(), receive.channel->peer_lane.data(),
                              transfer_ns};
  const TransferRows out = NextTransfer(&holds_[receive.hold]);
  if (send.eager) {
    ReceiveEagerRow(received, out, reached.size());
  } else {
    MatchRow(received, out, reached.size());
  }
  JoinLast(&holds_[receive.hold]);
  Settle(receive.hold, receive.label);
  if (!send.eager) {
    MatchRow({sent.data(), reached.data(), send.channel->peer_lane.data(), transfer_ns},
             NextTransfer(&holds_[send.hold]), sent.size());
    JoinLast(&holds_[send.hold]);
    Settle(send.hold, send.label);
  }
}

void Meetings::Arrive(const PeerArrival& arrival) {
  const std::lock_guard<std::mutex> lock(mutex_);
  arriving_ = arrival.hold;
  const ChannelEnd& channel = *arrival.channel;
  Post post = {arrival.sequence,    {},
               arrival.transfer_ns, arrival.hold,
               arrival.eager,       arrival.fixed,
               arrival.channel,     arrival.label,
               arrival.bytes};
  const bool remote = channel.reach == PeerLoad::Reach::kNetwork && channel.channel != kNone;
  if (remote && arrival.is_send && frozen_ != nullptr) {
    post.transfer_ns = frozen_->sends[channel.channel][static_cast<size_t>(arrival.sequence)];
    post.fixed = true;
  }
  if (arrival.is_send && arrival.eager) {
    if (remote && times_ != nullptr) {
      DeferSend(post, nullptr);  // is matched with its receiver when it has ended
      return;
    }
    SettleAlone(post);
  }
  if (channel.channel == kNone) {
    return;  // no other side: an invalid graph; stays open
  }
  Meet(std::move(post), arrival.is_send);
}

void Meetings::Meet(Post post, bool is_send) {
  const size_t own = size_t{2} * post.channel->channel + (is_send ? 0 : 1);
  Post other;
  if (!Take(&queues_[own ^ 1U], post.sequence, &other)) {
    if (post.eager) {
      post.arrival = holds_[post.hold].arrival;
    }
    queues_[own].posts.push_back(std::move(post));
  } else if (is_send) {
    MatchOrDefer(post, other);
  } else {
    MatchOrDefer(other, post);
  }
}

void Meetings::TakeSettled(std::vector<HoldId>* settled) {
  const std::lock_guard<std::mutex> lock(mutex_);
  settled->swap(settled_);
  settled_.clear();
}

std::vector<uint32_t> Meetings::MissingEntries(uint32_t comm_class, int64_t sequence) const {
  std::vector<bool> arrived(partition_.comm_classes[comm_class].entry_count);
  for (const Meeting& meeting : meetings_[comm_class]) {
    if (meeting.sequence == sequence) {
      for (const Member& member : meeting.members) {
        arrived[member.entry->entry] = true;
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
