#include "shim/virtual_device/memory_records.h"

#include <atomic>

#include "shim/session.h"
#include "shim/virtual_device/device_memory.h"
#include "shim/virtual_device/memory.h"

namespace prism::shim {

using channel::Record;
using channel::RecordKind;

void EmitSegment(RecordKind kind, uintptr_t address, size_t bytes, int64_t used_bytes) {
  Record record = {};
  record.kind = kind;
  record.segment = {address, static_cast<int64_t>(bytes), used_bytes};
  Emit(record);
}

void EmitOutside(const char* what, uint32_t comm, int64_t bytes, int64_t used_bytes) {
  Record record = {};
  record.kind = RecordKind::kOutsideAlloc;
  record.outside = {DefineOnce(channel::Table::kOutsideName, what), comm, bytes, used_bytes};
  Emit(record);
}

void EnsureContext() {
  static std::atomic<bool> done{false};
  if (!done.load(std::memory_order_relaxed) && !done.exchange(true)) {
    AccountOutside("context", 0, SessionConfig().device.context_bytes);
  }
}

}  // namespace prism::shim
