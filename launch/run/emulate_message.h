// MessageKind::kEmulate: what process 0 tells each worker as an emulation begins.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "graph/base/ids.h"
#include "launch/process/wire.h"

namespace prism::launch {

struct EmulateMessage {
  uint32_t number = 0;           // of the emulation in this run
  std::string_view graph_bytes;  // its sandbox ranks are those to run; as is `values`, of the
                                 // sender's or of the message, whichever it was taken from
  std::string exchange;          // MeetingPoint::exchange
  uint16_t store_port = 0;       // MeetingPoint::store_port
  std::vector<Rank> log_ranks;   // shown live
  std::vector<Rank> snapshot_ranks;
  int32_t iterations = 0;
  std::string_view values;            // the value book
  std::vector<uint64_t> values_told;  // bytes of it by sandbox rank
};

// With the kind in front.
std::string Encode(const EmulateMessage& message);

// What follows the kind.
EmulateMessage GetEmulate(WireReader* message);

}  // namespace prism::launch
