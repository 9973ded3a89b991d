#include "shim/issued_ops.h"

#include <utility>

#include "shim/session.h"

namespace prism::shim {
namespace {

using channel::RecordKind;

uint64_t next_number = 0;  // guarded by the caller
thread_local IssuedOps thread_issued;

}  // namespace

IssuedOps TakeIssuedOps() {
  return std::exchange(thread_issued, {});
}

void NoteCapturedOp(uint32_t number) {
  if (SessionConfig().measures_device != 0) {
    thread_issued = {.first = number, .count = 1, .captured = true};
  }
}

void NumberOp(const channel::Config& config, RecordKind kind) {
  if (config.measures_device != 0 && (kind == RecordKind::kMemcpy || kind == RecordKind::kSync)) {
    thread_issued.may_wait = true;
  }
  if (config.measures_device != 0 && (kind == RecordKind::kKernel || kind == RecordKind::kMatmul ||
                                      kind == RecordKind::kMemcpy || kind == RecordKind::kMemset)) {
    thread_issued.first = thread_issued.count++ == 0 ? next_number : thread_issued.first;
    ++next_number;
  }
}

}  // namespace prism::shim
