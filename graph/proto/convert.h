// Small structures ↔ their messages: what several codecs share. Only the codecs include this, so
// that generated types stay inside graph/proto.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string_view>

#include <fmt/format.h>

#include "graph/base/status.h"
#include "graph/graph.h"
#include "graph/proto/graph.pb.h"

namespace prism::graph {

// A number in the file → an enumerator; `last` is the highest one.
template <typename Enum>
Status ReadEnum(uint32_t number, Enum last, Enum* out) {
  if (number > static_cast<uint32_t>(last)) {
    return BadFile(fmt::format("unknown enumerator {}", number));
  }
  *out = static_cast<Enum>(number);
  return OkStatus();
}

inline Status ReadSlot(uint32_t number, uint16_t* out) {
  if (number > 0xFFFFU) {
    return BadFile(fmt::format("{} does not fit into 16 bits", number));
  }
  *out = static_cast<uint16_t>(number);
  return OkStatus();
}

inline Status CheckIndex(uint64_t index, uint64_t size, std::string_view what) {
  if (index >= size) {
    return BadFile(fmt::format("{} {} of {}", what, index, size));
  }
  return OkStatus();
}

// Texts and messages in a payload, among them those inside its fields of these numbers. Each takes
// up to a hundred times its bytes once it is parsed, all else 16 times at most.
size_t EntriesOf(std::string_view payload, std::initializer_list<int> fields);
inline constexpr size_t kMostEntries = size_t{1} << 20U;

// `nested`: fields of the message that hold repeated messages.
template <typename Message>
Status Parse(std::string_view payload, Message* message, std::initializer_list<int> nested = {}) {
  if (EntriesOf(payload, nested) > kMostEntries) {
    return BadFile(fmt::format("holds more than {} entries", kMostEntries));
  }
  if (!message->ParseFromArray(payload.data(), static_cast<int>(payload.size()))) {
    return BadFile("is no message of its kind");
  }
  return OkStatus();
}

void ToMessage(const JobSpec& job, proto::Job* message);
Status FromMessage(const proto::Job& message, JobSpec* job);

void ToMessage(const ClusterSpec& cluster, proto::Cluster* message);
Status FromMessage(const proto::Cluster& message, ClusterSpec* cluster);

void ToMessage(const MemoryProfile& memory, proto::Memory* message);
Status FromMessage(const proto::Memory& message, MemoryProfile* memory);

// Everything of a program but its ops.
void ToMessage(const Program& program, proto::ProgramHead* message);
Status FromMessage(const proto::ProgramHead& message, Program* program);

void ToMessage(const Warning& warning, proto::Warning* message);
Warning FromMessage(const proto::Warning& message);

}  // namespace prism::graph
