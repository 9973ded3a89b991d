// A single-producer, single-consumer ring. Neither side makes a system call while the other is
// awake: each announces that it goes to sleep, and the other wakes it when that is worth a context
// switch.
#include "shim/channel/channel.h"

#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <new>

#include "graph/base/divide.h"

namespace prism::channel {
namespace {

// The longest sleep before a side checks that its partner is still alive, nanoseconds.
constexpr int64_t kPartnerCheckNs = 100'000'000;
// The longest time that records stay unread after the producer has gone quiet without a request.
constexpr int64_t kConsumerNapNs = 20'000'000;
// A sleeping consumer is woken once this many slots wait for it; requests and the exit wake it at
// once. A switch costs some microseconds, a record some tens of nanoseconds.
constexpr uint64_t kWakeBacklogSlots = 1024;
// A sleeping producer is woken once this much of the ring is free.
constexpr uint64_t kWakeRoomSlots = kRingSlots / 4;
constexpr uint8_t kManySlots = 255;

// The first slot starts on a new page after the header.
constexpr size_t kHeaderBytes = (sizeof(Header) + 4095) / 4096 * 4096;
constexpr size_t kChannelBytes = kHeaderBytes + size_t{kRingSlots} * kSlotBytes;

std::byte* Slots(Header* header) {
  return reinterpret_cast<std::byte*>(header) + kHeaderBytes;
}

uint32_t PayloadSlots(uint32_t bytes) {
  return DivideUp(bytes, kSlotBytes);
}

// The payload that belongs to a record; only these kinds carry one.
uint32_t PayloadBytes(const Record& record) {
  switch (record.kind) {
    case RecordKind::kDefine:
      return record.define.payload_bytes;
    case RecordKind::kCommInit:
      return record.comm_init.payload_bytes;
    case RecordKind::kValue:
      return record.value.payload_bytes;
    default:
      return 0;
  }
}

void FutexWait(std::atomic<uint32_t>* word, uint32_t expected, int64_t timeout_ns) {
  const timespec timeout = {.tv_sec = timeout_ns / 1'000'000'000,
                            .tv_nsec = timeout_ns % 1'000'000'000};
  syscall(SYS_futex, word, FUTEX_WAIT, expected, &timeout, nullptr, 0);
}

void FutexWake(std::atomic<uint32_t>* word) {
  word->fetch_add(1, std::memory_order_release);
  syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

// The parent at the time of mapping; a different one later means that the worker has died. These
// sleeps are timed by the kernel's clock, not the program's: a raw system call bypasses the virtual
// clock.
pid_t parent_process = 0;

// The status is also read outside of answers, while the worker may write it.
std::atomic_ref<int32_t> StatusOf(Header* header) {
  return std::atomic_ref<int32_t>(header->answer.status);
}

bool WaitForRoom(Header* header, uint64_t head, uint64_t needed) {
  RingControl& ring = header->ring;
  while (head + needed - ring.tail.load(std::memory_order_acquire) > kRingSlots) {
    const uint32_t seen = ring.tail_futex.load(std::memory_order_acquire);
    ring.producer_waits.store(1, std::memory_order_seq_cst);
    if (head + needed - ring.tail.load(std::memory_order_seq_cst) <= kRingSlots) {
      break;
    }
    // The consumer may be asleep with less than its backlog only if one entry needs nearly the
    // whole ring.
    FutexWake(&ring.head_futex);
    FutexWait(&ring.tail_futex, seen, kPartnerCheckNs);
    if (WorkerGone(header)) {
      return false;
    }
  }
  ring.producer_waits.store(0, std::memory_order_relaxed);
  return true;
}

void CopyIn(Header* header, uint64_t slot, const void* data, size_t bytes) {
  const size_t offset = (slot % kRingSlots) * kSlotBytes;
  const size_t first = std::min(bytes, size_t{kRingSlots} * kSlotBytes - offset);
  std::memcpy(Slots(header) + offset, data, first);
  if (first < bytes) {
    std::memcpy(Slots(header), static_cast<const std::byte*>(data) + first, bytes - first);
  }
}

bool WakesAtOnce(const Header* header, RecordKind kind) {
  switch (kind) {
    case RecordKind::kSync:
    case RecordKind::kQueryEvent:
    case RecordKind::kElapsed:
      return header->config.mode == Mode::kEmulate;
    case RecordKind::kExit:
    case RecordKind::kRound:
      return true;
    default:
      return false;
  }
}

}  // namespace

bool WorkerGone(Header* header) {
  return StatusOf(header).load(std::memory_order_relaxed) == kAborted ||
         (parent_process != 0 && getppid() != parent_process);
}

Header* MapChannel(int descriptor) {
  struct stat status = {};
  if (fstat(descriptor, &status) != 0 || status.st_size != static_cast<off_t>(kChannelBytes)) {
    return nullptr;
  }
  void* const mapped =
      mmap(nullptr, kChannelBytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  if (mapped == MAP_FAILED) {
    return nullptr;
  }
  parent_process = getppid();
  return static_cast<Header*>(mapped);
}

bool ClaimProducer(Header* header) {
  const auto self = static_cast<uint32_t>(getpid());
  uint32_t holder = 0;
  return header->ring.producer_process.compare_exchange_strong(holder, self) || holder == self;
}

void ReleaseProducer(Header* header) {
  auto self = static_cast<uint32_t>(getpid());
  header->ring.producer_process.compare_exchange_strong(self, 0);
}

bool Push(Header* header, const Record& record, const void* payload, uint32_t payload_bytes) {
  RingControl& ring = header->ring;
  const uint64_t head = ring.head.load(std::memory_order_relaxed);
  const uint32_t payload_slots = PayloadSlots(payload_bytes);
  const uint64_t needed = 1 + uint64_t{payload_slots};
  if (needed > kRingSlots) {
    errno = EMSGSIZE;
    return false;
  }
  if (head + needed - ring.tail.load(std::memory_order_acquire) > kRingSlots &&
      !WaitForRoom(header, head, needed)) {
    return false;
  }
  Record stored = record;
  stored.payload_slots =
      payload_slots < kManySlots ? static_cast<uint8_t>(payload_slots) : kManySlots;
  CopyIn(header, head, &stored, sizeof(stored));
  if (payload_bytes > 0) {
    CopyIn(header, head + 1, payload, payload_bytes);
  }
  ring.head.store(head + needed, std::memory_order_seq_cst);
  if (ring.consumer_waits.load(std::memory_order_seq_cst) != 0 &&
      (head + needed - ring.tail.load(std::memory_order_relaxed) >= kWakeBacklogSlots ||
       WakesAtOnce(header, record.kind))) {
    ring.consumer_waits.store(0, std::memory_order_relaxed);
    FutexWake(&ring.head_futex);
  }
  if (record.kind == RecordKind::kExit) {
    ring.closed.store(1, std::memory_order_release);
  }
  return true;
}

int64_t HostCostNs(const Config& config, const Record& record) {
  if ((record.flags & kLaunchedWithPrevious) != 0) {
    return 0;
  }
  if (record.kind == RecordKind::kHostGap) {
    return record.host_gap.duration_ns;
  }
  const auto kind = static_cast<size_t>(record.kind);
  return kind < kHostCostKinds ? config.host_cost_ns[kind] : 0;
}

bool TakeDeadline(const Header* header,
                  uint32_t hold_stream,
                  uint64_t sequence,
                  uint64_t* time_ns) {
  const HoldDeadline& deadline = header->deadlines[hold_stream % kHoldStreams];
  if (deadline.of.load(std::memory_order_acquire) != sequence + 1) {
    return false;
  }
  *time_ns = deadline.time_ns;
  return true;
}

AnswerValue WaitAnswer(Header* header, uint32_t request, void (*while_hung)()) {
  Answer& answer = header->answer;
  for (;;) {
    const uint32_t sequence = answer.sequence.load(std::memory_order_acquire);
    if (sequence == request) {
      return {StatusOf(header).load(std::memory_order_relaxed), answer.host_time_ns,
              answer.value_ns};
    }
    if (WorkerGone(header)) {
      return {kAborted, 0, 0};
    }
    FutexWait(&answer.sequence, sequence, kPartnerCheckNs);
    if (while_hung != nullptr && header->hung.load(std::memory_order_relaxed) != 0) {
      while_hung();
    }
  }
}

Consumer::Consumer(const Config& config) {
  descriptor_ = memfd_create("prism-channel", 0);
  if (descriptor_ < 0 || ftruncate(descriptor_, static_cast<off_t>(kChannelBytes)) != 0) {
    return;
  }
  void* const mapped =
      mmap(nullptr, kChannelBytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor_, 0);
  if (mapped == MAP_FAILED) {
    return;
  }
  header_ = new (mapped) Header();
  header_->config = config;
  header_->worker_process = getpid();
}

Consumer::~Consumer() {
  const int kept = errno;
  if (header_ != nullptr) {
    munmap(header_, kChannelBytes);
  }
  if (descriptor_ >= 0) {
    close(descriptor_);
  }
  errno = kept;
}

bool Consumer::TryPop(Record* record, std::span<const std::byte>* payload) {
  RingControl& ring = header_->ring;
  const uint64_t tail = ring.tail.load(std::memory_order_relaxed);
  if (ring.head.load(std::memory_order_acquire) == tail) {
    return false;
  }
  std::memcpy(record, Slots(header_) + (tail % kRingSlots) * kSlotBytes, sizeof(*record));
  const size_t ring_bytes = size_t{kRingSlots} * kSlotBytes;
  const uint32_t bytes = std::min<uint32_t>(PayloadBytes(*record), ring_bytes - kSlotBytes);
  if (bytes > 0) {
    payload_.resize(bytes);
    const size_t offset = ((tail + 1) % kRingSlots) * kSlotBytes;
    const size_t first = std::min<size_t>(bytes, ring_bytes - offset);
    std::memcpy(payload_.data(), Slots(header_) + offset, first);
    std::memcpy(payload_.data() + first, Slots(header_), bytes - first);
  }
  *payload = std::span<const std::byte>(payload_.data(), bytes);
  const uint64_t next = tail + 1 + PayloadSlots(bytes);
  ring.tail.store(next, std::memory_order_seq_cst);
  if (ring.producer_waits.load(std::memory_order_seq_cst) != 0) {
    const uint64_t used = ring.head.load(std::memory_order_relaxed) - next;
    if (used == 0 || kRingSlots - used >= kWakeRoomSlots) {
      ring.producer_waits.store(0, std::memory_order_relaxed);
      FutexWake(&ring.tail_futex);
    }
  }
  return true;
}

bool Consumer::WaitForRecord(int64_t timeout_ns) {
  RingControl& ring = header_->ring;
  const uint64_t tail = ring.tail.load(std::memory_order_relaxed);
  int64_t left_ns = timeout_ns;
  while (ring.head.load(std::memory_order_acquire) == tail) {
    if (left_ns <= 0) {
      return false;
    }
    const uint32_t seen = ring.head_futex.load(std::memory_order_acquire);
    ring.consumer_waits.store(1, std::memory_order_seq_cst);
    if (ring.head.load(std::memory_order_seq_cst) != tail) {
      break;
    }
    const int64_t nap_ns = std::min(left_ns, kConsumerNapNs);
    FutexWait(&ring.head_futex, seen, nap_ns);
    left_ns -= nap_ns;
  }
  ring.consumer_waits.store(0, std::memory_order_relaxed);
  return true;
}

int Consumer::producer_process() const {
  return static_cast<int>(header_->ring.producer_process.load(std::memory_order_relaxed));
}

void Consumer::Reply(uint32_t request, const AnswerValue& answer) {
  Answer& slot = header_->answer;
  if (StatusOf(header_).load(std::memory_order_relaxed) != kAborted) {  // an abort is final
    StatusOf(header_).store(answer.status, std::memory_order_relaxed);
  }
  slot.host_time_ns = answer.host_time_ns;
  slot.value_ns = answer.value_ns;
  slot.sequence.store(request, std::memory_order_release);
  syscall(SYS_futex, &slot.sequence, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

void Consumer::SetDeadline(uint32_t hold_stream, uint64_t sequence, uint64_t time_ns) {
  HoldDeadline& deadline = header_->deadlines[hold_stream % kHoldStreams];
  deadline.time_ns = time_ns;
  deadline.of.store(sequence + 1, std::memory_order_release);
}

void Consumer::SetHung() {
  header_->hung.store(1, std::memory_order_relaxed);
}

void Consumer::Abort() {
  StatusOf(header_).store(kAborted, std::memory_order_relaxed);
  FutexWake(&header_->ring.tail_futex);
  syscall(SYS_futex, &header_->answer.sequence, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace prism::channel
