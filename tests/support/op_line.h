// What arrived at a device, as a line of text without ids of the process: kernels, products, copies
// and memsets with their arguments, events and waits by kind.
#pragma once

#include <cstdint>
#include <cstdio>
#include <map>
#include <string>

#include "shim/channel/messages.h"

namespace prism::testing {

// "" for records of other kinds. `kernels`: names by id.
inline std::string OpLine(const channel::Record& record,
                          const std::map<uint32_t, std::string>& kernels) {
  using channel::RecordKind;
  const auto name = [&](uint32_t id) {
    const auto found = kernels.find(id);
    return found == kernels.end() ? std::string("?") : found->second;
  };
  char text[160] = {};
  switch (record.kind) {
    case RecordKind::kKernel: {
      const channel::KernelBody& body = record.kernel;
      std::snprintf(text, sizeof(text), " grid %u %u %u block %u %u %u shared %u", body.grid[0],
                    body.grid[1], body.grid[2], body.block[0], body.block[1], body.block[2],
                    body.shared_bytes);
      return "kernel " + name(body.name) + text;
    }
    case RecordKind::kMatmul: {
      const channel::MatmulBody& body = record.matmul;
      std::snprintf(text, sizeof(text), " %d %d %d batch %d types %d %d transposed %d %d", body.m,
                    body.n, body.k, body.batch, body.input_dtype, body.output_dtype,
                    body.transpose_a, body.transpose_b);
      return "product " + name(body.name) + text;
    }
    case RecordKind::kMemcpy:
      std::snprintf(text, sizeof(text), "copy %lld in %d out %d",
                    static_cast<long long>(record.copy.bytes), record.copy.host_to_device,
                    record.copy.device_to_host);
      return text;
    case RecordKind::kMemset:
      std::snprintf(text, sizeof(text), "set %lld", static_cast<long long>(record.copy.bytes));
      return text;
    case RecordKind::kEventRecord:
      return "event record";
    case RecordKind::kEventWait:
      return "event wait";
    case RecordKind::kSync:
      std::snprintf(text, sizeof(text), "wait for kind %d", static_cast<int>(record.sync.kind));
      return text;
    case RecordKind::kSegmentAlloc:
      std::snprintf(text, sizeof(text), "allocate %llx %lld",
                    static_cast<unsigned long long>(record.segment.address),
                    static_cast<long long>(record.segment.bytes));
      return text;
    case RecordKind::kSegmentFree:
      std::snprintf(text, sizeof(text), "free %llx",
                    static_cast<unsigned long long>(record.segment.address));
      return text;
    default:
      return "";
  }
}

}  // namespace prism::testing
