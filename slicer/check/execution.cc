#include "slicer/check/execution.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace prism::slicer {
Execution::Execution(std::span<const RankCalls> ranks, bool buffers_sends)
    : ranks_(ranks), buffers_sends_(buffers_sends), states_(ranks.size()) {
  for (uint32_t rank = 0; rank < ranks_.size(); ++rank) {
    index_of_[ranks_[rank].rank] = rank;
    for (const CalledCommunicator& known : ranks_[rank].communicators) {
      if (known.hides_calls) {
        hidden_.insert(known.identity);
      }
    }
  }
  for (uint32_t rank = 0; rank < ranks_.size(); ++rank) {
    AddStreams(rank);
  }
  AddMeetings();
}

void Execution::AddStreams(uint32_t rank) {
  RankState& state = states_[rank];
  const std::vector<Call>& calls = ranks_[rank].calls;
  state.calls.resize(calls.size());
  state.streams.resize(1);
  for (uint32_t call = 0; call < calls.size(); ++call) {
    const uint16_t stream = calls[call].stream;
    const uint16_t thread = calls[call].thread;
    if (state.streams.size() <= std::max(stream, thread)) {
      state.streams.resize(size_t{std::max(stream, thread)} + 1);
    }
    state.streams[thread].is_thread = true;
    state.streams[stream].calls.push_back(call);
  }
}

Meeting Execution::NewMeeting(CallKind kind, const std::vector<Rank>& members) const {
  Meeting meeting = {.kind = kind};
  for (const Rank member : members) {
    if (const auto found = index_of_.find(member); found != index_of_.end()) {
      meeting.expected.push_back(found->second);
    }
  }
  std::ranges::sort(meeting.expected);
  return meeting;
}

// Of what has to be equal among the calls that meet; empty: the call meets nobody.
std::vector<int64_t> Execution::KeyOf(CallId id, std::vector<Rank>* members) {
  const Call& call = CallOf(id);
  const RankCalls& rank = ranks_[id.rank];
  const auto kind = static_cast<int64_t>(call.kind);
  if (call.kind == CallKind::kMakeGroup) {
    std::ranges::transform(ranks_, std::back_inserter(*members), &RankCalls::rank);
    const int32_t number = rank.groups[call.object].number;
    return number < 0 ? std::vector<int64_t>() : std::vector<int64_t>{kind, number};
  }
  if (call.kind == CallKind::kHostWait || call.kind == CallKind::kStore) {
    return {};
  }
  const CalledCommunicator& communicator = rank.communicators[call.object];
  *members = communicator.members;
  if (members->empty() || hidden_.contains(communicator.identity)) {
    return {};
  }
  const auto identity = static_cast<int64_t>(communicator.identity);
  const bool makes = call.kind == CallKind::kMakeCommunicator;
  return {kind, identity, makes ? 0 : counts_[{id.rank, identity}]++};
}

Meeting& Execution::Join(const std::vector<int64_t>& key,
                         const std::vector<Rank>& members,
                         CallId id) {
  const auto [found, is_new] = known_.emplace(key, static_cast<uint32_t>(meetings_.size()));
  if (is_new) {
    meetings_.push_back(NewMeeting(CallOf(id).kind, members));
    meetings_.back().number = static_cast<uint32_t>(key.back());
  }
  states_[id.rank].calls[id.call].meetings.push_back(found->second);
  meetings_[found->second].calls.push_back(id);
  return meetings_[found->second];
}

void Execution::JoinTransfers(CallId id) {
  const RankCalls& own = ranks_[id.rank];
  for (const CalledTransfer& transfer : own.calls[id.call].transfers) {
    const uint64_t group = own.communicators[transfer.communicator].identity;
    if (transfer.peer == own.rank || !index_of_.contains(transfer.peer) ||
        hidden_.contains(group)) {
      continue;
    }
    const Rank sender = transfer.is_send ? own.rank : transfer.peer;
    const Rank receiver = transfer.is_send ? transfer.peer : own.rank;
    std::vector<int64_t> key = {static_cast<int64_t>(CallKind::kTransfers),
                                static_cast<int64_t>(group), transfer.tag, sender.value(),
                                receiver.value()};
    // Sends and receives count separately.
    auto& [sends, receives] = messages_[key];
    key.push_back(transfer.is_send ? sends++ : receives++);
    Meeting& meeting = Join(key, {sender, receiver}, id);
    if (transfer.is_send) {
      meeting.sender = id;
    }
    (transfer.is_send ? meeting.sent_bytes : meeting.received_bytes) = transfer.bytes;
  }
}

// A message of gloo leaves when its receiver asks for it, one of NCCL that does not fit into the
// buffer of a channel likewise, unless it is spread over more of them, on which no program can
// rely.
bool Execution::IsBuffered(const Meeting& meeting, CallId id) const {
  constexpr int64_t kNcclBufferBytes = 4 << 20;  // NCCL_BUFFSIZE, by default
  return buffers_sends_ && meeting.sender == id && meeting.sent_bytes <= kNcclBufferBytes &&
         !CommunicatorOf(id).is_cpu;
}

bool Execution::WaitsIn(const Meeting& meeting, CallId id) const {
  if (meeting.kind == CallKind::kStore) {
    return meeting.reader == id;
  }
  return meeting.kind != CallKind::kMakeGroup && !IsBuffered(meeting, id);
}

// Who waits for a key meets each rank's first call that sets it.
void Execution::AddKeys() {
  std::map<std::string, std::vector<CallId>> setters;
  const auto for_each = [&](bool is_set, const auto& see) {
    for (uint32_t rank = 0; rank < ranks_.size(); ++rank) {
      for (uint32_t i = 0; i < ranks_[rank].calls.size(); ++i) {
        const Call& call = ranks_[rank].calls[i];
        if (call.kind == CallKind::kStore &&
            ranks_[rank].store_calls[call.object].is_set == is_set) {
          for (const std::string& key : ranks_[rank].store_calls[call.object].keys) {
            see(key, CallId{rank, i});
          }
        }
      }
    }
  };
  for_each(true, [&](const std::string& key, CallId id) {
    std::vector<CallId>& known = setters[key];
    if (known.empty() || known.back().rank != id.rank) {
      known.push_back(id);
    }
  });
  for_each(false, [&](const std::string& key, CallId id) {
    const auto setter = setters.find(key);
    if (setter == setters.end()) {
      return;
    }
    Meeting meeting = {.kind = CallKind::kStore, .calls = setter->second, .reader = id};
    const auto own = std::ranges::find(meeting.calls, id.rank, &CallId::rank);
    if (own != meeting.calls.end() && own->call < id.call) {
      return;
    }
    std::erase_if(meeting.calls, [&](CallId each) { return each.rank == id.rank; });
    if (meeting.calls.empty()) {
      return;
    }
    meeting.calls.push_back(id);
    std::ranges::sort(meeting.calls);
    for (const CallId each : meeting.calls) {
      meeting.expected.push_back(each.rank);
      states_[each.rank].calls[each.call].meetings.push_back(
          static_cast<uint32_t>(meetings_.size()));
    }
    keys_.push_back(static_cast<uint32_t>(meetings_.size()));
    meetings_.push_back(std::move(meeting));
  });
}

// Which calls meet depends on the order of each rank's own calls alone.
void Execution::AddMeetings() {
  for (uint32_t rank = 0; rank < ranks_.size(); ++rank) {
    for (uint32_t i = 0; i < ranks_[rank].calls.size(); ++i) {
      const CallId id = {rank, i};
      std::vector<Rank> members;
      if (CallOf(id).kind == CallKind::kTransfers) {
        JoinTransfers(id);
      } else if (const std::vector<int64_t> key = KeyOf(id, &members); !key.empty()) {
        Join(key, members, id);
      }
    }
  }
  AddKeys();
  for (const Meeting& meeting : meetings_) {
    for (const CallId id : meeting.calls) {
      states_[id.rank].calls[id.call].open += WaitsIn(meeting, id) ? 1 : 0;
    }
  }
  known_.clear();
}

void Execution::Run() {
  for (uint32_t rank = 0; rank < ranks_.size(); ++rank) {
    open_.push_back(rank);
    states_[rank].waiting = true;
  }
  do {
    while (!open_.empty()) {
      const uint32_t rank = open_.front();
      open_.pop_front();
      states_[rank].waiting = false;
      Advance(rank);
    }
  } while (ReadNextKey());
}

// The call that sets a key first, of those that have begun.
std::optional<CallId> Execution::SetterOf(const Meeting& meeting) const {
  std::optional<CallId> first;
  for (const CallId id : meeting.calls) {
    const bool is_setter = id != meeting.reader && HasBegun(id);
    if (is_setter && (!first || StateOf(id).begin_ns < StateOf(*first).begin_ns)) {
      first = id;
    }
  }
  return first;
}

// A key that some have set and that some others may set yet. Once nothing else goes on, those that
// come later wait for one that is read before; so the earliest is sure.
bool Execution::ReadNextKey() {
  std::optional<uint32_t> next;
  TimeNs next_ns = 0;
  std::erase_if(keys_, [&](uint32_t number) { return meetings_[number].end_ns >= 0; });
  for (const uint32_t number : keys_) {
    const Meeting& meeting = meetings_[number];
    const std::optional<CallId> setter = SetterOf(meeting);
    if (!setter || !HasBegun(*meeting.reader)) {
      continue;
    }
    const TimeNs end_ns = std::max(StateOf(*setter).begin_ns, StateOf(*meeting.reader).begin_ns);
    if (!next || end_ns < next_ns) {
      next = number;
      next_ns = end_ns;
    }
  }
  if (next) {
    EndMeeting(*next);
  }
  return next.has_value();
}

bool Execution::IsReady(uint32_t rank, const Call& call) const {
  return std::ranges::all_of(call.needs, [&](const Need& need) {
    return states_[rank].streams[need.stream].ends.size() >= need.count;
  });
}

// As far as the rank gets by itself.
void Execution::Advance(uint32_t rank) {
  RankState& state = states_[rank];
  bool moved = true;
  while (moved) {
    moved = false;
    for (Stream& stream : state.streams) {
      while (stream.next < stream.calls.size()) {
        const uint32_t call = stream.calls[stream.next];
        const bool in_turn = !stream.is_thread || stream.ends.size() == stream.next;
        if (!in_turn || !IsReady(rank, ranks_[rank].calls[call])) {
          break;
        }
        ++stream.next;
        Begin({rank, call});
        moved = true;
      }
    }
  }
}

TimeNs Execution::IssueOf(CallId id) const {
  const Call& call = CallOf(id);
  const std::vector<TimeNs>& thread = states_[id.rank].streams[call.thread].ends;
  size_t before = 0;
  for (const Need& need : call.needs) {
    before = need.stream == call.thread ? need.count : before;
  }
  before = call.stream == call.thread ? thread.size() : before;
  return call.gap_ns + (before == 0 ? 0 : thread[before - 1]);
}

void Execution::Begin(CallId id) {
  const Call& call = CallOf(id);
  CallState& state = states_[id.rank].calls[id.call];
  state.begin_ns = IssueOf(id);
  for (const Need& need : call.needs) {
    if (need.count > 0) {
      state.begin_ns = std::max(state.begin_ns,
                                states_[id.rank].streams[need.stream].ends[size_t{need.count} - 1]);
    }
  }
  for (const uint32_t meeting : state.meetings) {
    ++meetings_[meeting].begun;
    Meet(meeting);
  }
  if (state.open == 0 && state.end_ns < 0) {
    End(id, state.begin_ns);
  }
}

bool Execution::GoTogether(const Meeting& meeting) const {
  const CallId first = meeting.calls.front();
  const Call& call = CallOf(first);
  if (meeting.kind == CallKind::kTransfers) {
    const bool is_known = meeting.sent_bytes >= 0 && meeting.received_bytes >= 0;
    return !is_known || meeting.sent_bytes == meeting.received_bytes ||
           (CommunicatorOf(first).is_cpu &&
            meeting.sent_bytes < meeting.received_bytes);  // gloo fills what it gets
  }
  return std::ranges::all_of(meeting.calls, [&](CallId id) {
    if (meeting.kind == CallKind::kMakeGroup) {
      return ranks_[id.rank].groups[CallOf(id).object].members ==
             ranks_[first.rank].groups[call.object].members;
    }
    return meeting.kind != CallKind::kCollective || CallOf(id).shape == call.shape;
  });
}

void Execution::Meet(uint32_t number) {
  Meeting& meeting = meetings_[number];
  if (meeting.begun < meeting.expected.size() || meeting.differs || meeting.end_ns >= 0) {
    return;
  }
  if (!GoTogether(meeting)) {
    meeting.differs = true;
    differing_.push_back(number);
    return;
  }
  EndMeeting(number);
}

void Execution::EndMeeting(uint32_t number) {
  Meeting& meeting = meetings_[number];
  const std::optional<CallId> setter = meeting.reader ? SetterOf(meeting) : std::optional<CallId>();
  for (const CallId id : meeting.calls) {
    if (!setter || id == setter || id == meeting.reader) {
      meeting.end_ns = std::max(meeting.end_ns, StateOf(id).begin_ns);
    }
  }
  SeeLate(number);
  for (const CallId id : meeting.calls) {
    CallState& state = states_[id.rank].calls[id.call];
    if (WaitsIn(meeting, id) && --state.open == 0) {
      TimeNs end_ns = state.begin_ns;
      for (const uint32_t other : state.meetings) {
        end_ns = std::max(end_ns, meetings_[other].end_ns);
      }
      End(id, end_ns);
    }
  }
}

void Execution::End(CallId id, TimeNs end_ns) {
  RankState& state = states_[id.rank];
  state.calls[id.call].end_ns = end_ns;
  Stream& stream = state.streams[CallOf(id).stream];
  while (stream.ends.size() < stream.calls.size()) {
    const TimeNs next = state.calls[stream.calls[stream.ends.size()]].end_ns;
    if (next < 0) {
      break;
    }
    stream.ends.push_back(std::max(next, stream.ends.empty() ? 0 : stream.ends.back()));
  }
  if (!std::exchange(state.waiting, true)) {
    open_.push_back(id.rank);
  }
}

const CalledCommunicator& Execution::CommunicatorOf(CallId id) const {
  const Call& call = CallOf(id);
  const bool is_message = call.kind == CallKind::kTransfers;
  return ranks_[id.rank]
      .communicators[is_message ? call.transfers.front().communicator : call.object];
}

DurationNs Execution::TimeoutOf(CallId id) const {
  const Call& call = CallOf(id);
  return call.timeout_ns > 0 || call.kind == CallKind::kStore ? call.timeout_ns
                                                              : CommunicatorOf(id).timeout_ns;
}

void Execution::SeeLate(uint32_t number) {
  const Meeting& meeting = meetings_[number];
  if (meeting.kind != CallKind::kCollective && meeting.kind != CallKind::kMakeCommunicator &&
      meeting.kind != CallKind::kStore) {
    return;
  }
  if (std::ranges::any_of(meeting.calls, [&](CallId id) { return CallOf(id).is_untimed; })) {
    return;
  }
  const auto earlier = [&](CallId a, CallId b) { return IssueOf(a) < IssueOf(b); };
  const auto [earliest, latest] = std::ranges::minmax_element(meeting.calls, earlier);
  const CallId first = meeting.reader.value_or(*earliest);
  const DurationNs timeout_ns = TimeoutOf(first);
  const DurationNs waited_ns = meeting.end_ns - IssueOf(first);
  if (timeout_ns > 0 && waited_ns > timeout_ns) {
    late_.push_back({.meeting = number,
                     .waited_ns = waited_ns,
                     .deadline_ns = IssueOf(first) + timeout_ns,
                     .waiting = first,
                     .last = meeting.reader ? *SetterOf(meeting) : *latest});
  }
}

std::optional<CallId> Execution::FirstOpen(uint32_t rank, uint16_t stream) const {
  const Stream& found = states_[rank].streams[stream];
  if (found.ends.size() == found.calls.size()) {
    return std::nullopt;
  }
  return CallId{rank, found.calls[found.ends.size()]};
}

std::optional<CallId> Execution::Obstacle(CallId id) const {
  const Call& call = CallOf(id);
  for (const Need& need : call.needs) {
    if (states_[id.rank].streams[need.stream].ends.size() < need.count) {
      return FirstOpen(id.rank, need.stream);
    }
  }
  const std::optional<CallId> first = FirstOpen(id.rank, call.stream);
  return first && *first != id ? first : std::nullopt;
}

}  // namespace prism::slicer
