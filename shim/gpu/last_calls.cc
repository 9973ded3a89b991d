#include "shim/gpu/last_calls.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <mutex>

namespace prism::shim {
namespace {

constexpr size_t kLineBytes = 112;
constexpr size_t kFileBytes = kLineBytes * kLastCalls;

// Of this process; a forked one gets another.
struct Ring {
  std::mutex mutex;
  std::atomic<pid_t> process{0};
  std::atomic<char*> lines{nullptr};
  std::atomic<uint64_t> calls{0};
};
Ring ring;

char* MapLines(const char* prefix) {
  std::array<char, 4096> path = {};
  snprintf(path.data(), path.size(), "%s.%d", prefix, getpid());
  const int file = open(path.data(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  void* const mapped = file < 0 || ftruncate(file, kFileBytes) != 0
                           ? MAP_FAILED
                           : mmap(nullptr, kFileBytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  return mapped == MAP_FAILED ? nullptr : static_cast<char*>(mapped);
}

char* Lines() {
  static const char* const prefix = getenv("PRISM_CALLS");
  if (prefix == nullptr) {
    return nullptr;
  }
  if (ring.process.load(std::memory_order_acquire) != getpid()) {
    const std::lock_guard<std::mutex> lock(ring.mutex);
    if (ring.process.load() != getpid()) {
      ring.lines = MapLines(prefix);
      ring.process.store(getpid(), std::memory_order_release);
    }
  }
  return ring.lines;
}

void WriteLine(char* lines, uint64_t number, const char* name, const char* code) {
  std::array<char, kLineBytes + 1> line = {};
  snprintf(line.data(), line.size(), "%llu %.63s %s", static_cast<unsigned long long>(number), name,
           code);
  std::replace(line.begin(), line.end(), '\0', ' ');
  line[kLineBytes - 1] = '\n';
  memcpy(lines + number % kLastCalls * kLineBytes, line.data(), kLineBytes);
}

}  // namespace

uint64_t NoteCall(const char* name) {
  char* const lines = Lines();
  if (lines == nullptr) {
    return 0;
  }
  const uint64_t number = ++ring.calls;
  WriteLine(lines, number, name, "-");
  return number;
}

void NoteCode(uint64_t number, const char* name, int64_t code) {
  char* const lines = number == 0 ? nullptr : Lines();
  if (lines != nullptr) {
    std::array<char, 24> text = {};
    snprintf(text.data(), text.size(), "%lld", static_cast<long long>(code));
    WriteLine(lines, number, name, text.data());
  }
}

}  // namespace prism::shim
