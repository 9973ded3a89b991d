#include "slicer/check/call_recorder.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "graph/base/check.h"
#include "graph/base/content_hash.h"
#include "graph/base/data_type.h"
#include "graph/base/fnv.h"
#include "graph/base/intern.h"
#include "graph/program/collective_kinds.h"
#include "slicer/check/call_notes.h"

namespace prism::slicer {
namespace {

using channel::Record;
using channel::RecordKind;

constexpr std::string_view kPrefix = "prism:";  // of all notes
constexpr std::string_view kSide = "side:";     // behind it: of another thread than the main one
constexpr std::string_view kLine = "line:";
constexpr std::string_view kGroup = "group:";
constexpr std::string_view kStore = "store:";
constexpr std::string_view kStoreSet = "store-set:";
constexpr std::string_view kStoreKey = "store-key:";
constexpr std::string_view kDevice = "device:";
constexpr std::string_view kOverlap = "overlap:";
constexpr std::string_view kChange = "change:";
constexpr std::string_view kStandIn = "stand_in:";  // of a counter
constexpr std::string_view kCpu = "cpu:";
constexpr std::string_view kCpuWait = "cpu-wait:";
constexpr std::string_view kCpuUnknown = "cpu-unknown:";
constexpr std::string_view kObjects = "objects:";
constexpr std::string_view kThread = "thread:";
constexpr std::string_view kWord = "word:";
constexpr std::string_view kHeard = "heard:";
constexpr std::string_view kRank = "rank:";
constexpr std::string_view kPlace = "place:";
constexpr uint16_t kFirstCpuStream = 0x8000;  // of the process's streams: one for each channel
constexpr uint16_t kFirstThread = 0xC000;     // likewise: one for each thread but the main one
constexpr int32_t kFirstSteps = 4;
constexpr int32_t kLeastSteps = 40;
constexpr size_t kHashDigits = 40;  // of the name of a group that only its members make

// The last such group's.
DurationNs TimeoutOf(const RankCalls& calls, const std::vector<Rank>& members) {
  const auto group =
      std::find_if(calls.groups.rbegin(), calls.groups.rend(),
                   [&](const CalledGroup& known) { return known.members == members; });
  return group != calls.groups.rend() ? group->timeout_ns
         : calls.groups.empty()       ? 0
                                      : calls.groups.front().timeout_ns;
}

}  // namespace

CallRecorder::CallRecorder(Rank rank) : stream_(rank) {
  calls_.rank = rank;
}

RankCalls CallRecorder::TakeCalls() {
  calls_.steps = steps();
  MarkDropped();
  return std::move(calls_);
}

// A stream on which the program computes waits by its order.
void CallRecorder::MarkDropped() {
  std::set<uint16_t> computing = {0};
  for (const auto& [stream, number] : numbers_) {
    if (computing_.contains(stream) || stream >= kFirstThread) {
      computing.insert(number);
    }
  }
  std::map<uint16_t, uint32_t> counts;
  for (Call& call : calls_.calls) {
    const uint32_t count = ++counts[call.stream];
    call.is_dropped = call.kind != CallKind::kStore && !computing.contains(call.stream) &&
                      count > awaited_[call.stream];
  }
}

Status CallRecorder::Consume(const Record& record, std::span<const std::byte> payload) {
  if (record.kind == RecordKind::kBeginAgain) {
    *this = CallRecorder(calls_.rank);
    return OkStatus();
  }
  if (record.kind == RecordKind::kMarker && record.marker.is_note != 0) {
    return SeeNote(record);
  }
  if (record.kind == RecordKind::kValue && record.value.steers != 0) {
    const channel::ValueHead& head = record.value;
    calls_.contributions.push_back(
        {FnvBytes(&head.sequence, sizeof(head.sequence),
                  FnvByte(head.operation, FnvBytes(&head.communicator, sizeof(head.communicator)))),
         FnvBytes(payload.data(), payload.size())});
  }
  PRISM_RETURN_IF_ERROR(stream_.Push(record, payload)
                            .status()
                            .WithContext(fmt::format("recording rank {}", calls_.rank.value())));
  if (steps() != seen_steps_) {
    EndStep();
  }
  See(record);
  return OkStatus();
}

// The first steps make communicators, and rebuild what they reduce.
void CallRecorder::EndStep() {
  ContentHash hash;
  for (size_t i = step_begin_; i < calls_.calls.size(); ++i) {
    const Call& call = calls_.calls[i];
    hash.Add(static_cast<int64_t>(call.kind));
    hash.Add(call.source);
    hash.Add(call.object);
    hash.Add(call.shape.bytes);
  }
  step_begin_ = calls_.calls.size();
  seen_steps_ = steps();
  if (seen_steps_ > kFirstSteps && kinds_[hash.Digest()]++ == 0) {
    last_new_kind_ = seen_steps_;
  }
}

bool CallRecorder::HasSeenAllTwice() const {
  return seen_steps_ > kLeastSteps && seen_steps_ > 2 * last_new_kind_ &&
         std::ranges::all_of(kinds_, [](const auto& kind) { return kind.second > 1; });
}

void CallRecorder::See(const Record& record) {
  switch (record.kind) {
    case RecordKind::kCommInit:
      SeeCommunicator(record);
      break;
    case RecordKind::kCollective:
      SeeCollective(record);
      break;
    case RecordKind::kPeerTransfer:
      SeeTransfer(record);
      break;
    case RecordKind::kGroupEnd:
      if (auto transfers = std::exchange(pending_[record.thread], {}); !transfers.empty()) {
        Call call = Begin(CallKind::kTransfers, record.thread);
        call.transfers = std::move(transfers);
        AddOnStream(std::move(call), record.stream, record.thread, false);
      }
      break;
    case RecordKind::kEventRecord:
      events_[record.event.event] = tails_[record.stream];
      break;
    case RecordKind::kEventWait:
      Merge(events_[record.event.event], &tails_[record.stream]);
      Merge(events_[record.event.event], &awaited_);
      break;
    case RecordKind::kKernel:
    case RecordKind::kMatmul:
    case RecordKind::kMemset:
      computing_.insert(record.stream);
      break;
    case RecordKind::kSync:
      SeeSync(record);
      break;
    case RecordKind::kCounter:
      SeeStand(record);
      break;
    case RecordKind::kHostGap:
      threads_.Of(record.thread).gap_ns += record.stream == 0 ? record.host_gap.duration_ns : 0;
      break;
    default:
      break;
  }
}

void CallRecorder::SeeStand(const Record& record) {
  const Result<std::string> name =
      stream_.definitions().Name(channel::Table::kCounterName, record.counter.name);
  if (name.ok() && name->starts_with(kStandIn)) {
    InternValue(calls_.assumptions, fmt::format("--stand-in, {}", name->substr(kStandIn.size())));
  }
}

Status CallRecorder::SeeNote(const Record& record) {
  PRISM_ASSIGN_OR_RETURN(
      const std::string name,
      stream_.definitions().Name(channel::Table::kMarkerName, record.marker.name));
  std::string_view text = name;
  text.remove_prefix(text.starts_with(kPrefix) ? kPrefix.size() : text.size());
  if (text.starts_with(kSide)) {
    text.remove_prefix(kSide.size());
    if (!threads_.Knows(record.thread)) {
      BeginThread(record.thread, {.is_untimed = true});
    }
  }
  if (text.starts_with(kLine)) {
    SeeLine(text.substr(kLine.size()), record.thread);
  } else if (text.starts_with(kGroup)) {
    SeeGroup(text.substr(kGroup.size()), record.thread);
  } else if (text.starts_with(kStore)) {
    std::string_view rest = text.substr(kStore.size());
    const DurationNs timeout_ns = NumberIn(TakePart(&rest)) * kNsPerMs;
    SeeStoreCall({.text = std::string(rest)}, timeout_ns, record.thread);
  } else if (text.starts_with(kStoreSet)) {
    SeeStoreCall({.text = std::string(text.substr(kStoreSet.size())), .is_set = true}, 0,
                 record.thread);
  } else if (text.starts_with(kStoreKey)) {
    if (!calls_.store_calls.empty()) {
      calls_.store_calls.back().keys.emplace_back(text.substr(kStoreKey.size()));
    }
  } else if (text.starts_with(kDevice)) {
    std::string_view rest = text.substr(kDevice.size());
    const auto node = static_cast<int32_t>(NumberIn(TakePart(&rest)));
    devices_[record.thread] = {node, static_cast<int32_t>(NumberIn(rest))};
  } else if (text.starts_with(kOverlap)) {
    overlapping_.insert(record.thread);
  } else if (text.starts_with(kChange)) {
    InternValue(calls_.changes, CalledChange{Begin(CallKind::kHostWait, record.thread).source,
                                             std::string(text.substr(kChange.size()))});
  } else if (text.starts_with(kCpu)) {
    SeeCpuCall(text.substr(kCpu.size()), record.thread);
  } else if (text.starts_with(kCpuWait)) {
    SeeCpuWait(text.substr(kCpuWait.size()), record.thread);
  } else if (text.starts_with(kCpuUnknown)) {
    std::string_view rest = text.substr(kCpuUnknown.size());
    const std::string_view identity = TakePart(&rest);
    SeeUnknown(CpuGroupOf(identity, rest));
  } else if (text.starts_with(kObjects)) {
    moving_objects_.insert(record.thread);
  } else if (text.starts_with(kThread)) {
    BeginThread(record.thread, {.is_daemon = text.substr(kThread.size()) == "1"});
  } else if (text.starts_with(kWord)) {
    threads_.LeaveWord(IdentityIn(text.substr(kWord.size())), record.thread,
                       counts_[threads_.Of(record.thread).stream]);
  } else if (text.starts_with(kHeard)) {
    WaitFor(threads_.Hear(IdentityIn(text.substr(kHeard.size())), record.thread), record.thread);
  } else if (text.starts_with(kRank) || text.starts_with(kPlace)) {
    const bool is_place = text.starts_with(kPlace);
    std::string_view rest = text.substr(is_place ? kPlace.size() : kRank.size());
    calls_.told_ranks.push_back({NumberIn(TakePart(&rest)), is_place});
  }
  return OkStatus();
}

void CallRecorder::BeginThread(uint16_t thread, HostThread host) {
  host.stream = NumberOf(static_cast<uint16_t>(kFirstThread + begun_threads_++));
  threads_.Begin(thread, host);
}

void CallRecorder::SeeUnknown(uint32_t communicator) {
  calls_.communicators[communicator].hides_calls = true;
  InternValue(calls_.assumptions,
              fmt::format("calls of a group with rank {}, which makes them on several threads in "
                          "an order by chance or receives from anybody, are in order",
                          calls_.rank.value()));
}

void CallRecorder::SeeStoreCall(CalledKeys called, DurationNs timeout_ns, uint16_t thread) {
  Call call = Begin(CallKind::kStore, thread);
  call.object = static_cast<uint32_t>(calls_.store_calls.size());
  call.timeout_ns = timeout_ns;
  calls_.store_calls.push_back(std::move(called));
  AddOnHost(std::move(call), thread);
}

void CallRecorder::SeeLine(std::string_view text, uint16_t thread) {
  SourceLine source;
  source.line = static_cast<int32_t>(NumberIn(TakePart(&text)));
  source.function = TakePart(&text);
  source.file = text;
  line_[thread] = InternValue(calls_.sources, source);
  moving_objects_.erase(thread);
}

void CallRecorder::SeeGroup(std::string_view text, uint16_t thread) {
  CalledGroup group;
  group.timeout_ns = NumberIn(TakePart(&text)) * kNsPerMs;
  group.members = MembersIn(TakePart(&text));
  group.name = text;
  const bool only_members =
      text.size() == kHashDigits && text.find_first_not_of("0123456789abcdef") == text.npos;
  group.number = only_members ? -1 : groups_for_all_++;
  Call call = Begin(CallKind::kMakeGroup, thread);
  call.object = static_cast<uint32_t>(calls_.groups.size());
  calls_.groups.push_back(std::move(group));
  AddOnHost(std::move(call), thread);
}

uint32_t CallRecorder::CpuGroupOf(std::string_view identity, std::string_view members) {
  const auto next = static_cast<uint32_t>(calls_.communicators.size());
  const auto [group, is_new] = cpu_groups_.try_emplace(IdentityIn(identity), next);
  if (is_new) {
    CalledCommunicator made = {.identity = group->first, .members = MembersIn(members)};
    made.timeout_ns = TimeoutOf(calls_, made.members);
    made.is_cpu = true;
    calls_.communicators.push_back(std::move(made));
  }
  return group->second;
}

uint16_t CallRecorder::CpuStreamOf(std::string_view identity, std::string_view channel) {
  const auto next = static_cast<uint16_t>(kFirstCpuStream + cpu_streams_.size());
  return cpu_streams_.try_emplace(fmt::format("{}:{}", identity, channel), next).first->second;
}

void CallRecorder::SeeCpuCall(std::string_view text, uint16_t thread) {
  const std::string_view identity = TakePart(&text);
  const uint32_t group = CpuGroupOf(identity, TakePart(&text));
  const std::string_view channel = TakePart(&text);
  const std::string_view kind = TakePart(&text);
  const bool is_message = kind == "send" || kind == "recv";
  Call call = Begin(is_message ? CallKind::kTransfers : CallKind::kCollective, thread);
  const int32_t peer = RootOf(group, NumberIn(TakePart(&text)));
  call.timeout_ns = NumberIn(TakePart(&text)) * kNsPerMs;
  const int64_t given_bytes = NumberIn(TakePart(&text));
  const int64_t bytes = moving_objects_.contains(thread) ? -1 : given_bytes;
  if (is_message) {
    call.transfers = {{.is_send = kind == "send",
                       .peer = Rank(static_cast<uint32_t>(peer)),
                       .communicator = group,
                       .bytes = bytes,
                       .tag = NumberIn(channel.substr(channel.rfind('/') + 1))}};
  } else {
    call.object = group;
    call.is_barrier = kind == "barrier";
    call.shape.kind = ValueNamed(graph::kCollectiveKindNames, kind).value_or(call.shape.kind);
    call.shape.root = peer;
    // No other call meets a barrier.
    call.shape.bytes = call.is_barrier ? 0 : bytes;
    call.shape.dtype =
        bytes < 0 ? DataType::kUnknown : DataTypeNamed(text).value_or(DataType::kUnknown);
  }
  const uint16_t stream = CpuStreamOf(identity, channel);
  AddOnStream(std::move(call), stream, thread, false);
}

void CallRecorder::SeeCpuWait(std::string_view text, uint16_t thread) {
  const std::string_view identity = TakePart(&text);
  const uint16_t stream = NumberOf(CpuStreamOf(identity, TakePart(&text)));
  WaitFor({{stream, static_cast<uint32_t>(NumberIn(text))}}, thread);
}

// As a rank of the job.
int32_t CallRecorder::RootOf(uint32_t communicator, int64_t root) const {
  const std::vector<Rank>& members = calls_.communicators[communicator].members;
  return static_cast<int32_t>(root >= 0 && root < static_cast<int64_t>(members.size())
                                  ? members[static_cast<size_t>(root)].value()
                                  : root);
}

void CallRecorder::SeeCommunicator(const Record& record) {
  const channel::CommInitBody& body = record.comm_init;
  const RecordedCommunicator* const made = stream_.communicator(body.comm);
  PRISM_CHECK(made != nullptr);
  CalledCommunicator communicator = {.identity = made->identity,
                                     .members = made->members,
                                     .name = made->name,
                                     .is_default = body.group_number == 1};
  if (communicator.identity == 0) {  // not the framework's: those of the same members, in order
    ContentHash hash;
    for (const Rank member : communicator.members) {
      hash.Add(member.value());
    }
    hash.Add(++nameless_[communicator.members]);
    communicator.identity = hash.Digest();
  }
  communicator.timeout_ns = TimeoutOf(calls_, communicator.members);
  if (const auto device = devices_.extract(record.thread)) {
    std::tie(communicator.node, communicator.device) = device.mapped();
  }
  const auto index = static_cast<uint32_t>(calls_.communicators.size());
  communicators_[body.comm] = index;
  calls_.communicators.push_back(std::move(communicator));
  Call call = Begin(CallKind::kMakeCommunicator, record.thread);
  call.object = index;
  AddOnHost(std::move(call), record.thread);
}

bool CallRecorder::IsBarrier(uint32_t context) const {
  const Result<FrameworkContext> op = stream_.definitions().Context(context);
  return op.ok() && op->op.find("barrier") != std::string::npos;
}

void CallRecorder::SeeCollective(const Record& record) {
  const channel::CollectiveBody& body = record.collective;
  Call call = Begin(CallKind::kCollective, record.thread);
  call.object = communicators_[body.comm];
  call.is_barrier = IsBarrier(record.context);
  call.overlaps = overlapping_.erase(record.thread) > 0;
  call.shape = {.kind = static_cast<graph::CollectiveKind>(body.collective),
                .dtype = static_cast<DataType>(body.dtype),
                .reduce = static_cast<graph::ReduceOp>(body.reduce),
                .root = RootOf(call.object, body.root),
                .bytes = body.bytes};
  AddOnStream(std::move(call), record.stream, record.thread, body.grouped_with_next != 0);
}

void CallRecorder::SeeTransfer(const Record& record) {
  const uint32_t communicator = communicators_[record.peer.comm];
  const std::vector<Rank>& members = calls_.communicators[communicator].members;
  const auto peer = static_cast<size_t>(record.peer.peer);
  if (peer < members.size()) {
    pending_[record.thread].push_back({.is_send = record.peer.is_send != 0,
                                       .peer = members[peer],
                                       .communicator = communicator,
                                       .bytes = record.peer.bytes});
  }
}

void CallRecorder::SeeSync(const Record& record) {
  switch (record.sync.kind) {
    case channel::SyncKind::kStream:
      WaitFor(tails_[record.stream], record.thread);
      break;
    case channel::SyncKind::kEvent:
      WaitFor(events_[record.sync.event], record.thread);
      break;
    case channel::SyncKind::kDevice: {
      Clock all;
      for (auto tail = tails_.begin(); tail != tails_.lower_bound(kFirstCpuStream); ++tail) {
        Merge(tail->second, &all);
      }
      WaitFor(all, record.thread);
      break;
    }
  }
}

void CallRecorder::WaitFor(const Clock& clock, uint16_t thread) {
  Merge(clock, &awaited_);
  Clock& waited = threads_.Of(thread).waited;
  Call call = Begin(CallKind::kHostWait, thread);
  call.source = 0;
  for (const auto& [stream, count] : clock) {
    if (waited[stream] < count) {
      call.needs.push_back({stream, count});
    }
  }
  if (!call.needs.empty()) {
    Merge(clock, &waited);
    AddOnHost(std::move(call), thread);
  }
}

Call CallRecorder::Begin(CallKind kind, uint16_t thread) {
  const HostThread& host = threads_.Of(thread);
  Call call = {.kind = kind, .step = stream_.iteration(), .is_untimed = host.is_untimed};
  call.is_of_daemon = host.is_daemon;
  call.thread = host.stream;
  const auto line = line_.find(thread);
  call.source = line == line_.end() ? 0 : line->second;
  return call;
}

void CallRecorder::AddOnHost(Call call, uint16_t thread) {
  call.gap_ns = std::exchange(threads_.Of(thread).gap_ns, 0);
  call.stream = call.thread;
  ++counts_[call.stream];
  calls_.calls.push_back(std::move(call));
}

uint16_t CallRecorder::NumberOf(uint16_t stream) {
  const auto next = static_cast<uint16_t>(numbers_.size() + 1);
  return numbers_.try_emplace(stream, next).first->second;
}

void CallRecorder::AddOnStream(Call call, uint16_t stream, uint16_t thread, bool grouped) {
  const uint32_t communicator =
      call.transfers.empty() ? call.object : call.transfers.front().communicator;
  // Those of a channel of a CPU group, or of a communicator, come in order.
  if (!threads_.CallInOrder(stream < kFirstCpuStream ? communicator : uint32_t{stream} << 16U,
                            thread)) {
    SeeUnknown(communicator);
  }
  HostThread& host = threads_.Of(thread);
  const uint16_t number = NumberOf(stream);
  call.stream = number;
  call.gap_ns = host.gap_ns;
  if (!std::exchange(group_open_, grouped)) {
    group_needs_.clear();
    if (const uint32_t count = counts_[host.stream]; count > 0) {
      group_needs_.push_back({host.stream, count});
    }
    for (const auto& [other, count] : tails_[stream]) {
      if (host.waited[other] < count) {
        group_needs_.push_back({other, count});
      }
    }
  }
  call.needs = group_needs_;
  tails_[stream] = {{number, ++counts_[number]}};
  calls_.calls.push_back(std::move(call));
}

}  // namespace prism::slicer
