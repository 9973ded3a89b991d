#include "shim/nccl/exchange_arena.h"

#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cstdio>
#include <utility>

#include "graph/base/divide.h"

namespace prism::shim {

namespace {

constexpr uint32_t kArenaVersion = 3;
constexpr uint32_t kStagingAreas = 4096;  // communicators with two or more present members
constexpr uint32_t kMailboxes = 16384;    // pairs of communicating present ranks, per communicator
constexpr uint64_t kAreaAlignment = 4096;

// Directly to the kernel: inside the shim the library call may be answered in virtual time.
long Futex(std::atomic<uint32_t>* word, int operation, uint32_t value, const timespec* timeout) {
  return syscall(SYS_futex, word, operation, value, timeout, nullptr, 0);
}

void WakeAll(Signal* signal) {
  if (signal->sleepers.load() != 0) {
    Futex(&signal->value, FUTEX_WAKE, INT_MAX, nullptr);
  }
}

// Sleeps while the value is `seen`, at most a second, so that an abort is always noticed; with
// short patience, no longer than it takes to notice that all ranks wait.
void Sleep(Signal* signal, uint32_t seen, Patience patience = Patience::kLong) {
  constexpr timespec kSecond = {1, 0};
  constexpr timespec kLook = {0, kAllWaitMs * 500'000};
  signal->sleepers.fetch_add(1);
  Futex(&signal->value, FUTEX_WAIT, seen, patience == Patience::kShort ? &kLook : &kSecond);
  signal->sleepers.fetch_sub(1);
}

timespec MachineTime() {
  timespec now = {};
  syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &now);
  return now;
}

int64_t MachineMilliseconds() {
  const timespec now = MachineTime();
  return int64_t{now.tv_sec} * 1000 + now.tv_nsec / 1'000'000;
}

ExchangeStatus GivenUp() {
  ExchangeStatus status;
  status.code = ExchangeCode::kAborted;
  std::snprintf(status.message, sizeof(status.message), "the communicator was aborted");
  return status;
}

}  // namespace

int64_t MachineSeconds() {
  return MachineTime().tv_sec;
}

struct ArenaHeader {
  std::atomic<uint32_t> version;
  std::atomic<uint32_t> abort_state;  // 0 none, 1 reason being written, 2 reason present
  char abort_reason[256];
  std::atomic<uint64_t> used;  // bytes allocated after the header
  Signal activity;
  std::atomic<uint32_t> waiting;  // ranks in a short wait
  StagingArea staging_areas[kStagingAreas];
  Mailbox mailboxes[kMailboxes];
};

void Signal::Add(uint32_t amount) {
  value.fetch_add(amount);
  WakeAll(this);
}

void Signal::AddAndWakeAt(uint32_t amount, uint32_t wake_at) {
  if (value.fetch_add(amount) + amount == wake_at) {
    WakeAll(this);
  }
}

ExchangeArena ExchangeArena::Create(size_t bytes) {
  const int descriptor = memfd_create("prism-exchange", MFD_CLOEXEC);
  if (descriptor < 0) {
    return {};
  }
  if (ftruncate(descriptor, static_cast<off_t>(bytes)) != 0) {
    close(descriptor);
    return {};
  }
  ExchangeArena arena = Map(descriptor);
  arena.descriptor_ = descriptor;
  return arena;
}

ExchangeArena ExchangeArena::Map(int descriptor) {
  ExchangeArena arena;
  struct stat file = {};
  if (fstat(descriptor, &file) != 0 || file.st_size < static_cast<off_t>(sizeof(ArenaHeader))) {
    return arena;
  }
  const auto bytes = static_cast<size_t>(file.st_size);
  void* address =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, descriptor, 0);
  if (address == MAP_FAILED) {
    return arena;
  }
  auto* header = static_cast<ArenaHeader*>(address);
  uint32_t version = 0;
  if (!header->version.compare_exchange_strong(version, kArenaVersion) &&
      version != kArenaVersion) {
    munmap(address, bytes);
    return arena;
  }
  arena.header_ = header;
  arena.bytes_ = bytes;
  return arena;
}

ExchangeArena ExchangeArena::MapPath(const char* path) {
  const int descriptor = open(path, O_RDWR | O_CLOEXEC);
  if (descriptor < 0) {
    return {};
  }
  ExchangeArena arena = Map(descriptor);
  close(descriptor);
  return arena;
}

ExchangeArena::~ExchangeArena() {
  if (header_ != nullptr) {
    munmap(header_, bytes_);
  }
  if (descriptor_ >= 0) {
    close(descriptor_);
  }
}

ExchangeArena::ExchangeArena(ExchangeArena&& other) noexcept {
  *this = std::move(other);
}

ExchangeArena& ExchangeArena::operator=(ExchangeArena&& other) noexcept {
  std::swap(header_, other.header_);
  std::swap(bytes_, other.bytes_);
  std::swap(descriptor_, other.descriptor_);
  std::swap(stall_seconds_, other.stall_seconds_);
  std::swap(ranks_, other.ranks_);
  return *this;
}

void ExchangeArena::Abort(const char* reason) {
  uint32_t none = 0;
  if (!header_->abort_state.compare_exchange_strong(none, 1)) {
    return;
  }
  std::snprintf(header_->abort_reason, sizeof(header_->abort_reason), "%s", reason);
  header_->abort_state.store(2);
  for (StagingArea& area : header_->staging_areas) {
    WakeAll(&area.arrived);
    WakeAll(&area.left);
    WakeAll(&area.calls);
  }
  WakeAll(&header_->activity);
}

bool ExchangeArena::aborted() const {
  return header_->abort_state.load() == 2;
}

ExchangeStatus ExchangeArena::AbortedStatus() const {
  ExchangeStatus status;
  status.code = ExchangeCode::kAborted;
  std::snprintf(status.message, sizeof(status.message), "aborted: %s", header_->abort_reason);
  return status;
}

bool ExchangeArena::Reserve(uint64_t bytes, uint64_t* offset) {
  const uint64_t size = RoundUp(bytes, kAreaAlignment);
  const uint64_t first = RoundUp<uint64_t>(sizeof(ArenaHeader), kAreaAlignment);
  *offset = first + header_->used.fetch_add(size);
  return *offset + size <= bytes_;
}

namespace {

// Finds or claims the entry of a key in a table with open addressing. The claimant runs `prepare`
// before others see the entry; an entry that could not be prepared stays unusable (ready == 2).
template <typename Entry, typename Prepare>
Entry* FindEntry(Entry* table, uint32_t size, uint64_t key, const Prepare& prepare) {
  key = key == 0 ? 1 : key;
  for (uint32_t probe = 0; probe < size; ++probe) {
    Entry* entry = &table[(key + probe) % size];
    uint64_t found = 0;
    if (entry->key.compare_exchange_strong(found, key)) {
      entry->ready.store(prepare(entry) ? 1 : 2);
    } else if (found != key) {
      continue;
    }
    while (entry->ready.load() == 0) {
      syscall(SYS_sched_yield);  // the claimant is a few instructions from done
    }
    return entry->ready.load() == 1 ? entry : nullptr;
  }
  return nullptr;
}

}  // namespace

StagingArea* ExchangeArena::FindStagingArea(uint64_t key, uint32_t member_count) {
  StagingArea* area =
      FindEntry(header_->staging_areas, kStagingAreas, key, [&](StagingArea* entry) {
        entry->member_count = member_count;
        return Reserve(sizeof(MemberArea) * member_count, &entry->offset);
      });
  return area != nullptr && area->member_count == member_count ? area : nullptr;
}

Mailbox* ExchangeArena::FindMailbox(uint64_t key) {
  return FindEntry(header_->mailboxes, kMailboxes, key,
                   [&](Mailbox* entry) { return Reserve(kMailboxBytes, &entry->offset); });
}

MemberArea* ExchangeArena::Members(const StagingArea& area) {
  return reinterpret_cast<MemberArea*>(reinterpret_cast<std::byte*>(header_) + area.offset);
}

std::byte* ExchangeArena::Bytes(const Mailbox& mailbox) {
  return reinterpret_cast<std::byte*>(header_) + mailbox.offset;
}

ExchangeStatus ExchangeArena::WaitUntil(Signal* signal,
                                        uint32_t target,
                                        const std::atomic<bool>* given_up) {
  uint32_t last = signal->value.load();
  if (static_cast<int32_t>(last - target) >= 0) {
    return {};
  }
  int64_t since = MachineSeconds();
  while (true) {
    const uint32_t value = signal->value.load();
    if (static_cast<int32_t>(value - target) >= 0) {
      return {};
    }
    if (aborted()) {
      return AbortedStatus();
    }
    if (given_up != nullptr && given_up->load()) {
      return GivenUp();
    }
    if (value != last) {
      last = value;
      since = MachineSeconds();
    }
    if (MachineSeconds() - since >= stall_seconds_) {
      ExchangeStatus status;
      status.code = ExchangeCode::kStalled;
      std::snprintf(status.message, sizeof(status.message), "%u of %u arrivals missing",
                    target - value, target);
      return status;
    }
    Sleep(signal, value);
  }
}

uint32_t ExchangeArena::Announce(StagingArea* area, size_t member) {
  const uint32_t call = Members(*area)[member].calls.fetch_add(1) + 1;
  area->calls.Add(1);
  return call;
}

ExchangeStatus ExchangeArena::WaitForCall(StagingArea* area,
                                          uint32_t call,
                                          Patience patience,
                                          const std::atomic<bool>* given_up) {
  const MemberArea* members = Members(*area);
  const auto missing = [&] {
    uint32_t count = 0;
    for (uint32_t i = 0; i < area->member_count; ++i) {
      count += static_cast<int32_t>(members[i].calls.load() - call) < 0 ? 1 : 0;
    }
    return count;
  };
  if (missing() == 0) {
    return {};
  }
  ShortWait wait(this, patience);
  int64_t since = MachineSeconds();
  uint32_t last = area->calls.value.load();
  while (true) {
    const uint32_t seen = area->calls.value.load();
    if (missing() == 0) {
      return {};
    }
    if (aborted()) {
      return AbortedStatus();
    }
    if (given_up != nullptr && given_up->load()) {
      return GivenUp();
    }
    ExchangeStatus status;
    if (wait.IsOver()) {
      status.code = ExchangeCode::kLate;
      return status;
    }
    if (std::exchange(last, seen) != seen) {
      since = MachineSeconds();
    }
    if (MachineSeconds() - since >= stall_seconds_) {
      status.code = ExchangeCode::kStalled;
      std::snprintf(status.message, sizeof(status.message),
                    "%u of its members have not come to it for %d s", missing(), stall_seconds_);
      return status;
    }
    Sleep(&area->calls, seen, patience);
  }
}

ShortWait::ShortWait(ExchangeArena* arena, Patience patience) : arena_(arena), patience_(patience) {
  if (patience_ == Patience::kShort) {
    arena_->header_->waiting.fetch_add(1);
    Move();
  }
}

ShortWait::~ShortWait() {
  if (patience_ == Patience::kShort) {
    arena_->header_->waiting.fetch_sub(1);
  }
}

void ShortWait::Move() {
  since_ms_ = all_wait_since_ms_ = MachineMilliseconds();
}

bool ShortWait::IsOver() {
  if (patience_ == Patience::kLong) {
    return false;
  }
  const int64_t now_ms = MachineMilliseconds();
  const bool all_wait = arena_->ranks_ > 0 && arena_->header_->waiting.load() >= arena_->ranks_;
  if (!all_wait) {
    all_wait_since_ms_ = now_ms;
  }
  return now_ms - all_wait_since_ms_ >= kAllWaitMs || now_ms - since_ms_ >= kLateMs;
}

std::span<StagingArea> ExchangeArena::staging_areas() {
  return header_->staging_areas;
}

std::span<Mailbox> ExchangeArena::mailboxes() {
  return header_->mailboxes;
}

uint64_t ExchangeArena::used() const {
  return header_->used.load();
}

std::atomic<uint32_t>* ExchangeArena::waiting() {
  return &header_->waiting;
}

const char* ExchangeArena::abort_reason() const {
  return header_->abort_reason;
}

Signal* ExchangeArena::activity() {
  return &header_->activity;
}

void ExchangeArena::WaitActivity(uint32_t seen, Patience patience) {
  if (!aborted()) {
    Sleep(&header_->activity, seen, patience);
  }
}

}  // namespace prism::shim
