#include "shim/observer/observer_calls.h"

#include "shim/channel/frameworks.h"
#include "shim/clock/host_meter.h"
#include "shim/python_code.h"
#include "shim/session.h"
#include "shim/virtual_device/capture.h"

using prism::channel::Record;
using prism::channel::RecordKind;

namespace {

// Once a process. Which modules are loaded says more than what the program's own files import.
bool NameFrameworks() {
  int (*ensure)() = nullptr;
  void (*release)(int) = nullptr;
  void* (*modules)() = nullptr;
  void* (*find)(void*, const char*) = nullptr;
  if (prism::shim::SessionMode() != prism::channel::Mode::kRecord ||
      !prism::shim::FindPythonCall("PyGILState_Ensure", &ensure) ||
      !prism::shim::FindPythonCall("PyGILState_Release", &release) ||
      !prism::shim::FindPythonCall("PyImport_GetModuleDict", &modules) ||
      !prism::shim::FindPythonCall("PyDict_GetItemString", &find)) {
    return false;
  }
  const int state = ensure();
  for (const prism::channel::Framework& framework : prism::channel::kFrameworks) {
    if (find(modules(), framework.module) != nullptr) {
      prism::shim::DefineOnce(prism::channel::Table::kFramework, framework.module);
    }
  }
  release(state);
  return true;
}

}  // namespace

extern "C" {

uint32_t prism_shim_define(uint8_t table, const void* payload, uint32_t bytes) {
  return prism::shim::DefineOnce(static_cast<prism::channel::Table>(table),
                                 {static_cast<const char*>(payload), bytes});
}

void prism_shim_set_context(uint32_t context) {
  prism::shim::SetThreadContext(context);
}

void prism_shim_backward_op(int begin) {
  prism::shim::SeePhase(prism::channel::kInBackward, begin != 0);
}

void prism_shim_optimizer_step(int begin) {
  [[maybe_unused]] static const bool are_named = NameFrameworks();
  prism::shim::SeePhase(prism::channel::kInOptimizer, begin != 0);
}

void prism_shim_inside(int begin) {
  if (begin != 0) {
    prism::shim::EnterShim();
  } else {
    prism::shim::LeaveShim();
  }
}

void prism_shim_framework_op(int64_t tensors) {
  prism::shim::CountFrameworkOp(tensors);
}

int64_t prism_shim_outside_ns() {
  return prism::shim::OutsideNs();
}

void prism_shim_set_observer_call_ns(int64_t ns, int64_t tensor_ns) {
  prism::shim::SetObserverCallNs(ns, tensor_ns);
}

uint32_t prism_shim_context() {
  return prism::shim::ThreadContext();
}

void prism_shim_marker(uint32_t name, int begin, int in_backward) {
  Record record = {};
  record.kind = RecordKind::kMarker;
  record.marker.name = name;
  record.marker.begin = begin != 0 ? 1 : 0;
  record.marker.in_backward = in_backward != 0 ? 1 : 0;
  prism::shim::Emit(record);
  prism::shim::KeepRange([record] { prism::shim::Emit(record); });
}

void prism_shim_note(uint32_t name) {
  if (prism::shim::SessionMode() != prism::channel::Mode::kRecord) {
    return;
  }
  Record record = {};
  record.kind = RecordKind::kMarker;
  record.marker.name = name;
  record.marker.is_note = 1;
  prism::shim::Emit(record);
  prism::shim::KeepRange([record] { prism::shim::Emit(record); });
}

void prism_shim_block_event(int is_alloc, uint64_t address, int64_t bytes) {
  Record record = {};
  record.kind = is_alloc != 0 ? RecordKind::kBlockAlloc : RecordKind::kBlockFree;
  record.segment.address = address;
  record.segment.bytes = bytes;
  prism::shim::Emit(record);
}

void prism_shim_allocator_stats(const prism::channel::AllocatorStatsBody* stats) {
  Record record = {};
  record.kind = RecordKind::kAllocatorStats;
  record.stats = *stats;
  prism::shim::Emit(record);
}

void prism_shim_count(const char* counter) {
  prism::shim::Count(counter);
}

int prism_shim_has_worked() {
  return prism::shim::HasWorked() ? 1 : 0;
}

int prism_shim_mode() {
  return static_cast<int>(prism::shim::SessionMode());
}
}
