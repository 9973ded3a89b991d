// The Machine (hold_logic.h) of the CPU: for holds through host callbacks, and for tests.
#pragma once

#include <sched.h>
#include <time.h>

#include <atomic>
#include <cstdint>

namespace prism::shim {

// Nanoseconds of the machine's own clock, unaffected by any virtual clock.
inline uint64_t HostNowNs() {
  timespec now = {};
  clock_gettime(CLOCK_MONOTONIC_RAW, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000U + static_cast<uint64_t>(now.tv_nsec);
}

struct HostMachine {
  static uint64_t Load(const uint64_t* address) {
    return std::atomic_ref<uint64_t>(*const_cast<uint64_t*>(address)).load();
  }
  static void Store(uint64_t* address, uint64_t value) {
    std::atomic_ref<uint64_t>(*address).store(value);
  }
  static void Fence() { std::atomic_thread_fence(std::memory_order_seq_cst); }
  static uint64_t Add(uint64_t* address, uint64_t value) {
    return std::atomic_ref<uint64_t>(*address).fetch_add(value);
  }
  static uint64_t Now() { return HostNowNs(); }
  static void Nap() { sched_yield(); }
};

}  // namespace prism::shim
