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
#include <cstring>
#include <utility>

#include "graph/base/divide.h"

namespace prism::shim {

namespace {

constexpr uint32_t kArenaVersion = 1;
constexpr uint32_t kStagingAreas = 4096;  // communicators with two or more present members
constexpr uint32_t kMailboxes = 16384;    // pairs of present ranks that talk, per communicator
constexpr uint64_t kAreaAlignment = 4096;

// Straight to the kernel: inside the shim the library call may be answered in virtual time.
long Futex(std::atomic<uint32_t>* word, int operation, uint32_t value, const timespec* timeout) {
  return syscall(SYS_futex, word, operation, value, timeout, nullptr, 0);
}

void WakeAll(Signal* signal) {
  if (signal->sleepers.load() != 0) {
    Futex(&signal->value, FUTEX_WAKE, INT_MAX, nullptr);
  }
}

// Sleeps while the value is `seen`, a second at most, so that an abort is always noticed.
void Sleep(Signal* signal, uint32_t seen) {
  const timespec second = {1, 0};
  signal->sleepers.fetch_add(1);
  Futex(&signal->value, FUTEX_WAIT, seen, &second);
  signal->sleepers.fetch_sub(1);
}

}  // namespace

int64_t MachineSeconds() {
  timespec now = {};
  syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &now);
  return now.tv_sec;
}

struct ArenaHeader {
  std::atomic<uint32_t> version;
  std::atomic<uint32_t> abort_state;  // 0 none, 1 reason being written, 2 reason there
  char abort_reason[256];
  std::atomic<uint64_t> used;  // bytes handed out behind the header
  Signal activity;
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
// before others see the entry; an entry that could not be prepared stays useless (ready == 2).
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
      syscall(SYS_sched_yield);  // the claimant is a few instructions away
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
      ExchangeStatus status;
      status.code = ExchangeCode::kAborted;
      std::snprintf(status.message, sizeof(status.message), "the communicator was aborted");
      return status;
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

Signal* ExchangeArena::activity() {
  return &header_->activity;
}

void ExchangeArena::WaitActivity(uint32_t seen) {
  if (!aborted()) {
    Sleep(&header_->activity, seen);
  }
}

}  // namespace prism::shim
