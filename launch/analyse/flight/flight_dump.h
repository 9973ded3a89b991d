// What PyTorch's flight recorder wrote for one rank: the collectives, sends and receives that its
// process groups were asked for, oldest first. Format: the pickle that TORCH_FR_BUFFER_SIZE makes a
// process keep, of version 2.x, which torchfrtrace reads, or 1.x of older releases, which has no
// types, one number for collectives and messages, and numbers for groups.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "graph/base/ids.h"
#include "graph/base/status.h"

namespace prism::launch {

struct FlightTensors {
  std::vector<std::vector<int64_t>> sizes;  // a shape a tensor
  std::vector<std::string> types;           // "Float", "BFloat16"; one per tensor

  bool operator==(const FlightTensors&) const = default;
};

struct FlightFrame {
  std::string function;
  std::string file;
  int64_t line = 0;

  bool operator==(const FlightFrame&) const = default;
};

struct FlightEntry {
  int64_t record_id = 0;  // counted over all groups of the process
  int64_t collective_seq_id = 0;
  int64_t p2p_seq_id = 0;
  int64_t op_id = 0;
  std::string group;  // key of FlightDump::groups
  std::string name;   // "nccl:all_reduce", "nccl:send 0->1" (ranks of the group)
  FlightTensors input;
  FlightTensors output;
  std::string state;         // "scheduled", "started" or "completed"
  bool of_messages = false;  // "nccl:coalesced": of sends and receives, whose own states stay
  int64_t created_ns = 0;
  std::vector<FlightFrame> frames;  // innermost first

  bool operator==(const FlightEntry&) const = default;
};

struct FlightGroup {
  std::string description;
  std::vector<Rank> ranks;  // of the job, by rank in the group; empty: not known

  bool operator==(const FlightGroup&) const = default;
};

struct FlightDump {
  std::string version;
  std::map<std::string, FlightGroup> groups;  // by c10d's name
  std::vector<FlightEntry> entries;

  bool operator==(const FlightDump&) const = default;
};

// Whether the bytes begin like a dump, pickled or as JSON.
bool IsFlightDump(std::string_view bytes);

// kBadFile if the bytes are not a dump, or a dump of another version. `name` is for messages.
Result<FlightDump> DecodeFlightDump(std::string_view bytes, const std::string& name);

std::string EncodeFlightDump(const FlightDump& dump);

// Whether the entry is a send; whether it is a send or a receive.
bool IsSendEntry(const FlightEntry& entry);
bool IsPeerEntry(const FlightEntry& entry);

}  // namespace prism::launch
