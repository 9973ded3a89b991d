#include "shim/nccl/absent_members.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <new>
#include <optional>
#include <tuple>

#include "graph/base/fnv.h"
#include "graph/base/mix.h"
#include "shim/session.h"

namespace prism::shim {

namespace {

using channel::FoundValue;
using channel::ValueBook;
using channel::ValueHead;
using channel::ValueOrigin;

// Sums of values kept by this process, and numbers of communicators that are alike.
struct Kept {
  std::mutex mutex;
  uint64_t bytes = 0;
  std::map<uint64_t, uint32_t> alike;
};

Kept& GetKept() {
  alignas(Kept) static std::byte storage[sizeof(Kept)];
  static Kept* const kept = new (storage) Kept();  // used until the very end
  return *kept;
}

std::span<const std::byte> MapBook() {
  const char* const path = std::getenv("PRISM_VALUES");
  const char* const bytes = std::getenv("PRISM_VALUES_BYTES");
  if (path == nullptr || bytes == nullptr) {
    return {};
  }
  const size_t size = std::strtoull(bytes, nullptr, 10);
  const int opened = open(path, O_RDONLY | O_CLOEXEC);
  void* const mapped =
      opened < 0 || size == 0 ? MAP_FAILED : mmap(nullptr, size, PROT_READ, MAP_SHARED, opened, 0);
  close(opened);
  if (mapped == MAP_FAILED) {
    std::fprintf(stderr, "prism shim: the memory of PRISM_VALUES cannot be mapped\n");
    std::abort();
  }
  return {static_cast<const std::byte*>(mapped), size};
}

const ValueBook& Book() {
  alignas(ValueBook) static std::byte storage[sizeof(ValueBook)];
  static const ValueBook* const book = new (storage) ValueBook(MapBook());
  return *book;
}

// Distinguishes the communicators of this process that are alike by their order.
uint64_t Numbered(uint64_t alike) {
  Kept& kept = GetKept();
  const std::lock_guard<std::mutex> lock(kept.mutex);
  const uint32_t ordinal = kept.alike[alike]++;
  return FnvBytes(&ordinal, sizeof(ordinal), alike);
}

// Members relative to the first.
uint64_t ShapeOf(const Membership& members, int32_t size) {
  uint64_t shape = FnvBytes(&size, sizeof(size));
  shape = FnvBytes(&members.global_stride, sizeof(members.global_stride), shape);
  for (const int32_t rank : members.ranks) {
    const int32_t offset = rank - members.ranks.front();
    shape = FnvBytes(&offset, sizeof(offset), shape);
  }
  return shape;
}

// Sends a value to the worker. It is this rank's own, so no other rank is involved. Of a message
// whose bytes were never written nothing is kept; of a root, that they were not.
void Keep(ValueHead head, const void* source, Memory* memory) {
  uint32_t bytes = head.payload_bytes;
  if (SessionMode() != channel::Mode::kRecord || bytes == 0 || bytes > channel::kMaxValueBytes) {
    return;
  }
  if (!memory->AnyValid(source, bytes)) {
    if (head.target >= 0) {
      return;
    }
    bytes = head.payload_bytes = 0;
  }
  {
    Kept& kept = GetKept();
    const std::lock_guard<std::mutex> lock(kept.mutex);
    if (kept.bytes + sizeof(head) + bytes > channel::kMaxValuesOfRank) {
      Count("values_beyond_limit");
      return;
    }
    kept.bytes += sizeof(head) + bytes;
  }
  const auto value = std::make_unique<std::byte[]>(bytes);
  memory->Read(source, bytes, value.get());
  channel::Record record = {};
  record.kind = channel::RecordKind::kValue;
  record.value = head;
  Emit(record, value.get(), bytes);
}

FoundValue LookUp(const ValueHead& head) {
  if (head.payload_bytes == 0 || head.payload_bytes > channel::kMaxValueBytes) {
    return {};
  }
  const FoundValue found = Book().Find(head);
  if (!found.value.empty()) {
    Count(found.origin == ValueOrigin::kRecorded ? "values_replayed" : "values_of_peer_role");
  }
  return found;
}

constexpr size_t kMostFloatingBytes = 8;    // of a contribution that is kept
constexpr size_t kMostReducedBytes = 1024;  // likewise, of integers

bool Contributes(ExchangeOperation operation) {
  return operation == ExchangeOperation::kAllGather || operation == ExchangeOperation::kGather ||
         operation == ExchangeOperation::kAllReduce || operation == ExchangeOperation::kReduce;
}

bool IsFloating(Element element) {
  return element >= Element::kFloat16;
}

// Uniform in (0, 1].
double NextUniform(uint64_t* state) {
  return (static_cast<double>(NextSplitMix(state) >> 11U) + 1) * 0x1p-53;
}

// By Box and Muller.
void WriteNormals(const ExchangeCall& call, uint64_t seed, void* target, Memory* memory) {
  const size_t bytes = call.bytes();
  const auto values = std::make_unique<std::byte[]>(bytes);
  const double scale = 1 / std::sqrt(static_cast<double>(call.count));
  for (size_t i = 0; i < call.count; ++i) {
    const double radius = std::sqrt(-2 * std::log(NextUniform(&seed)));
    const double angle = 2 * M_PI * NextUniform(&seed);
    WriteScalar(values.get() + i * ElementBytes(call.element), call.element,
                scale * radius * std::cos(angle));
  }
  memory->Write(target, bytes, values.get());
}

}  // namespace

void AbsentMembers::Describe(const Membership& members, int32_t size, uint64_t place) {
  members_ = members;
  shape_ = members.known() ? Numbered(ShapeOf(members, size)) : 0;
  place_ = place == 0 ? 0 : static_cast<uint32_t>(Numbered(place));
}

ValueHead AbsentMembers::HeadOf(ExchangeOperation operation, const ExchangeCall& call) const {
  ValueHead head = {};
  head.communicator = call.group.identity;
  head.shape = shape_;
  head.place = place_;
  head.source = call.root;
  head.target = -1;
  head.producer = members_.known() ? members_.GlobalRank(call.root) : SessionConfig().rank;
  head.operation = static_cast<uint8_t>(operation);
  const size_t blocks =
      operation == ExchangeOperation::kScatter ? static_cast<size_t>(call.group.size) : 1;
  const size_t bytes = call.bytes() * blocks;
  head.payload_bytes = static_cast<uint32_t>(std::min<size_t>(bytes, UINT32_MAX));
  return head;
}

void AbsentMembers::Provide(const ValueHead& head,
                            const ExchangeCall& call,
                            void* recv,
                            Memory* memory) {
  const size_t bytes = call.bytes();
  const FoundValue found = LookUp(head);
  TellGuess(head, call, found);
  if (!found.value.empty()) {
    const bool is_scatter = head.operation == static_cast<uint8_t>(ExchangeOperation::kScatter);
    const size_t offset = is_scatter ? static_cast<size_t>(call.group.rank) * bytes : 0;
    memory->Write(recv, bytes, found.value.data() + offset);
    return;
  }
  if (found.origin != ValueOrigin::kNone) {
    memory->Invalidate(recv, bytes);  // as if the root were present
    return;
  }
  // No rank keeps more: larger values are not known to control anything.
  const bool is_large = head.payload_bytes > channel::kMaxValueBytes;
  Count(is_large ? "absent_root_large" : "absent_root_broadcast");
  if (!memory->AnyValid(recv, bytes)) {
    WriteZeros(recv, bytes, memory);
  }
}

// Objects are gathered as bytes: an absent rank's are those of a present one, whatever they
// contain.
void AbsentMembers::CountObjects(const ExchangeCall& call, const void* send, Memory* memory) {
  const size_t bytes = call.bytes();
  if (call.element == Element::kUint8 && bytes <= channel::kMaxValueBytes &&
      call.group.present.size() + call.recorded.size() < static_cast<size_t>(call.group.size) &&
      memory->AnyValid(send, bytes)) {
    Count("gathered_objects_repeated:objects of absent ranks were its own");
  }
}

// A contribution of this rank to that call of this very communicator; nullopt: none that is kept.
// Integers, and single floating-point numbers, of which programs make sizes, counts and decisions.
std::optional<ValueHead> AbsentMembers::ContributionOf(ExchangeOperation operation,
                                                       const ExchangeCall& call) const {
  const bool gathers =
      operation == ExchangeOperation::kAllGather || operation == ExchangeOperation::kGather;
  const size_t most = IsFloating(call.element) ? kMostFloatingBytes
                      : gathers                ? channel::kMaxValueBytes
                                               : kMostReducedBytes;
  if (call.bytes() == 0 || call.bytes() > most || call.group.size <= 1) {
    return std::nullopt;
  }
  ValueHead head = HeadOf(operation, call);
  head.shape = head.place = 0;
  head.sequence = static_cast<uint32_t>(call.sequence);
  head.operation = static_cast<uint8_t>(head.operation | static_cast<uint8_t>(call.element) << 4U);
  head.source = call.group.rank;
  head.producer = SessionConfig().rank;
  head.steers = call.element == Element::kUint8 ? 0 : 1;
  return head;
}

// Once for all roots of a gathering that is made of broadcasts.
void AbsentMembers::FindContributions(const ValueHead& head, ExchangeCall* call) {
  const std::tuple asked(head.sequence, head.operation, head.payload_bytes);
  if (found_ == asked) {
    call->recorded = recorded_;
    return;
  }
  found_ = asked;
  recorded_.clear();
  padded_.clear();
  for (auto [member, bytes] : Book().Contributions(head, call->element == Element::kUint8)) {
    if (IsPresent(call->group, member)) {
      continue;
    }
    if (bytes.size() != call->bytes()) {
      padded_.emplace_back(bytes.begin(), bytes.end()).resize(call->bytes());
      bytes = padded_.back();
    }
    recorded_.push_back({member, bytes});
  }
  call->recorded = recorded_;
}

void AbsentMembers::JoinContributions(ExchangeOperation operation,
                                      ExchangeCall* call,
                                      const void* send,
                                      Memory* memory) {
  if (const std::optional<ValueHead> head = ContributionOf(operation, *call)) {
    if (memory->AnyValid(send, call->bytes())) {
      Keep(*head, send, memory);
    }
    FindContributions(*head, call);
  }
  if (operation == ExchangeOperation::kAllGather || operation == ExchangeOperation::kGather) {
    CountObjects(*call, send, memory);
  }
}

void AbsentMembers::BeforeCollective(ExchangeOperation operation,
                                     ExchangeCall* call,
                                     const void** send,
                                     void* recv,
                                     Memory* memory) {
  if (Contributes(operation)) {
    JoinContributions(operation, call, *send, memory);
    return;
  }
  const bool is_broadcast = operation == ExchangeOperation::kBroadcast;
  if (!is_broadcast && operation != ExchangeOperation::kScatter) {
    return;
  }
  const ExchangeGroup& group = call->group;
  ValueHead head = HeadOf(operation, *call);
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    head.sequence = rooted_[{operation, call->root}]++;
  }
  if (IsPresent(group, call->root)) {
    if (group.rank == call->root && group.size > 1) {
      Keep(head, *send, memory);
    }
    return;
  }
  const bool gives = group.rank == group.present.front();
  if (gives || !is_broadcast) {
    Provide(head, *call, recv, memory);
  }
  if (is_broadcast) {
    call->root = group.present.front();
    *send = gives ? recv : *send;
  }
}

// Its roots follow each other, so that the first one's number is that of the gathering.
bool AbsentMembers::BeforeGathering(ExchangeCall* call,
                                    const void* send,
                                    void* recv,
                                    Memory* memory) {
  ExchangeCall gathering = *call;
  gathering.sequence -= static_cast<uint64_t>(call->root);
  const std::optional<ValueHead> head = ContributionOf(ExchangeOperation::kAllGather, gathering);
  const bool is_own = call->root == call->group.rank;
  if (is_own && head && memory->AnyValid(send, call->bytes())) {
    Keep(*head, send, memory);
  }
  if (head && (is_own || !IsPresent(call->group, call->root))) {
    FindContributions(*head, &gathering);
  }
  if (is_own) {
    CountObjects(gathering, send, memory);
  }
  if (IsPresent(call->group, call->root)) {
    return false;
  }
  const size_t stand_in = StandIns(gathering).Of(call->root);
  const std::span<const int32_t> present = call->group.present;
  if (stand_in >= present.size()) {
    memory->Write(recv, call->bytes(), gathering.recorded[stand_in - present.size()].bytes.data());
    return true;
  }
  call->root = present[stand_in];
  return false;
}

void AbsentMembers::Send(const ExchangeCall& call, const void* send, Memory* memory) {
  ValueHead head = HeadOf(ExchangeOperation::kSend, call);
  head.producer = SessionConfig().rank;
  head.source = call.group.rank;
  head.target = call.root;
  const size_t bytes = call.bytes();
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    head.sequence = sent_[call.root]++;
    if (!IsFloating(call.element) && bytes <= kSmallSlotBytes && memory->AnyValid(send, bytes)) {
      std::vector<std::byte>& last = last_sent_[{bytes, call.element}];
      last.resize(bytes);
      memory->Read(send, bytes, last.data());
    }
  }
  Keep(head, send, memory);
}

void AbsentMembers::TellGuess(const ValueHead& head,
                              const ExchangeCall& call,
                              const FoundValue& found) {
  const bool is_its_own = found.origin == ValueOrigin::kRecorded;
  const bool may_steer = !IsFloating(call.element) && head.payload_bytes > 0 &&
                         head.payload_bytes <= channel::kMaxValueBytes;
  if (SessionMode() != channel::Mode::kRecord || (is_its_own && !found.speculative) || !may_steer ||
      head.producer == SessionConfig().rank) {
    return;
  }
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!guessed_.emplace(head.producer, is_its_own).second) {
      return;
    }
  }
  channel::Record record = {};
  record.kind = channel::RecordKind::kGuess;
  record.guess.producer = head.producer;
  record.guess.speculative = is_its_own ? 1 : 0;
  Emit(record);
}

bool AbsentMembers::Mirror(const ExchangeCall& call, void* recv, Memory* memory) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto last = last_sent_.find({call.bytes(), call.element});
  if (last == last_sent_.end()) {
    return false;
  }
  Count("virtual_recv_mirrored");
  memory->Write(recv, last->second.size(), last->second.data());
  return true;
}

void AbsentMembers::Receive(const ExchangeCall& call, void* recv, Memory* memory) {
  const size_t bytes = call.bytes();
  ValueHead head = HeadOf(ExchangeOperation::kSend, call);
  head.target = call.group.rank;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    head.sequence = received_[call.root]++;
  }
  const FoundValue found = LookUp(head);
  TellGuess(head, call, found);
  if (!found.value.empty()) {
    memory->Write(recv, bytes, found.value.data());
    return;
  }
  if (bytes == 0 || Mirror(call, recv, memory)) {
    return;
  }
  Count("virtual_recv");
  if (!IsFloating(call.element) || bytes > kSmallSlotBytes) {
    WriteZeros(recv, bytes, memory);
    return;
  }
  const uint64_t seed = SessionConfig().seed;
  const int32_t numbers[] = {head.source, head.target, static_cast<int32_t>(head.sequence)};
  WriteNormals(call,
               FnvBytes(numbers, sizeof(numbers),
                        FnvBytes(&head.communicator, sizeof(head.communicator), seed)),
               recv, memory);
}

std::vector<ExchangeTransfer> RunWithAbsent(std::span<const MemberTransfer> transfers,
                                            Memory* memory) {
  // Sends first: what an absent peer returns may be taken from them.
  for (const bool is_send : {true, false}) {
    for (const MemberTransfer& each : transfers) {
      const ExchangeCall& call = each.transfer.call;
      if (each.is_send != is_send) {
        continue;
      }
      if (is_send && call.root != call.group.rank) {
        each.absent->Send(call, each.transfer.send, memory);
      } else if (!is_send && !IsPresent(call.group, call.root)) {
        each.absent->Receive(call, each.transfer.recv, memory);
      }
    }
  }
  std::vector<ExchangeTransfer> among_present;
  for (const MemberTransfer& each : transfers) {
    if (IsPresent(each.transfer.call.group, each.transfer.call.root)) {
      among_present.push_back(each.transfer);
    }
  }
  return among_present;
}

ExchangeStatus RunTransfers(std::span<const MemberTransfer> transfers,
                            Exchange* exchange,
                            Memory* memory) {
  return exchange->Transfers(RunWithAbsent(transfers, memory));
}

}  // namespace prism::shim
