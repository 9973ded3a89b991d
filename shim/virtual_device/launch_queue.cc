#include "shim/virtual_device/launch_queue.h"

#include <atomic>

namespace prism::shim {
namespace {

constexpr uint64_t kQueuedLaunches = 1024;

std::atomic<uint64_t> issued{0};
std::atomic<uint64_t> waited_for{0};

}  // namespace

void CountIssuedOp() {
  issued.fetch_add(1, std::memory_order_relaxed);
}

uint64_t LastIssuedOp() {
  return issued.load(std::memory_order_relaxed);
}

void NoteHostWait(uint64_t op) {
  uint64_t before = waited_for.load(std::memory_order_relaxed);
  while (before < op && !waited_for.compare_exchange_weak(before, op, std::memory_order_relaxed)) {
  }
}

bool MayBePending(uint64_t op) {
  return op > waited_for.load(std::memory_order_relaxed) && LastIssuedOp() - op < kQueuedLaunches;
}

}  // namespace prism::shim
