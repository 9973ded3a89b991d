#include "launch/emulate/sandbox/out_of_memory.h"

#include <cstring>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "graph/base/units.h"
#include "launch/emulate/sandbox/sandbox_process.h"

namespace prism::launch {
namespace {

// "held by activations 40 GiB, ..." and "largest blocks 2 GiB of aten::mm in iteration/..., ...",
// a line each; "" when nothing is known.
std::string HeldLines(const slicer::HeldMemory& held) {
  std::vector<std::string> classes;
  for (const graph::MemoryClass& part : held.classes) {
    classes.push_back(fmt::format("{} {}", part.name, FormatBytes(part.bytes)));
  }
  std::vector<std::string> blocks;
  for (const slicer::HeldMemory::Block& block : held.largest) {
    blocks.push_back(fmt::format("{} of {} in {}", FormatBytes(block.bytes),
                                 block.op.empty() ? "no framework op" : block.op,
                                 block.phase.empty() ? "no phase" : block.phase));
  }
  if (classes.empty()) {
    return {};
  }
  return fmt::format("\n  held by {}\n  largest blocks {}", fmt::join(classes, ", "),
                     fmt::join(blocks, "; "));
}

}  // namespace

void OutOfMemoryWatch::See(const channel::Record& record, std::span<const std::byte> payload) {
  using channel::RecordKind;
  if (record.kind == RecordKind::kDefine && record.define.table == channel::Table::kContext) {
    channel::ContextHeader header = {};
    if (payload.size() < sizeof(header)) {
      return;  // the recorder refuses it
    }
    std::memcpy(&header, payload.data(), sizeof(header));
    const size_t length = std::min<size_t>(header.name_bytes, payload.size() - sizeof(header));
    std::string name(length, '\0');
    std::memcpy(name.data(), payload.data() + sizeof(header), length);
    framework_ops_[record.define.id] = std::move(name);
  } else if (record.kind == RecordKind::kOutOfMemory) {
    full_ = true;
    context_ = record.context;
    requested_bytes_ = record.segment.bytes;
    used_bytes_ = record.segment.device_used_bytes;
  } else if (record.kind == RecordKind::kSegmentAlloc || record.kind == RecordKind::kKernel) {
    full_ = false;  // the allocator freed cached segments and continued
  }
}

size_t OutOfMemoryWatch::TailLines(const slicer::HeldMemory& held) const {
  return full_ && !held.classes.empty() ? 1 : SandboxProcess::kTailLines;
}

Status OutOfMemoryWatch::Explain(const Status& failure, const slicer::HeldMemory& held) const {
  if (!full_) {
    return failure;
  }
  const auto found = framework_ops_.find(context_);
  const std::string op = found == framework_ops_.end() ? "outside of any framework op"
                                                       : fmt::format("in {}", found->second);
  return {failure.code(),
          fmt::format("rank {} ran out of device memory {}: {} ({} bytes) asked for, {} in use{}\n"
                      "{}",
                      rank_.value(), op, FormatBytes(requested_bytes_), requested_bytes_,
                      FormatBytes(used_bytes_), HeldLines(held), failure.message())};
}

}  // namespace prism::launch
