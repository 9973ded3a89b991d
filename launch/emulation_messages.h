// What workers and process 0 say to each other while sandbox ranks run in virtual time.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graph/base/ids.h"
#include "graph/base/time.h"
#include "launch/wire.h"
#include "replayer/engine.h"

namespace prism::launch {

enum class RankEventKind : uint8_t {
  kIssued,       // position: everything before it has been issued
  kHostGap,      // value: host time that the graph does not foresee, ns
  kAskHostTime,  // request: a synchronisation call waits
  kAskEvent,     // request; position: the op that recorded the event, -1 long over;
                 // value: host time of a poll that is answered "not ready"; 0: a watching thread
  kAskElapsed,   // request; position and value: ops that recorded start and end
  kDeparted,     // did, expected: the rank's op and the graph's
};

struct RankEvent {
  RankEventKind kind = RankEventKind::kIssued;
  Rank rank;
  uint32_t request = 0;
  replayer::OpPosition position = -1;
  int64_t value = 0;
  std::string did = {};
  std::string expected = {};
};

struct RankAnswer {
  Rank rank;
  uint32_t request = 0;
  int32_t status = 0;  // channel::Answer::status
  TimeNs host_time_ns = 0;
  int64_t value_ns = 0;
  TimeNs event_end_ns = -1;  // kAskEvent: when the event's op ends; -1 not known
};

inline void PutEvent(const RankEvent& event, WireWriter* out) {
  out->Put(event.kind).Put(event.rank.value()).Put(event.request).Put(event.position);
  out->Put(event.value);
  if (event.kind == RankEventKind::kDeparted) {
    out->PutText(event.did).PutText(event.expected);
  }
}

inline RankEvent GetEvent(WireReader* in) {
  RankEvent event;
  event.kind = in->Get<RankEventKind>();
  event.rank = Rank(in->Get<uint32_t>());
  event.request = in->Get<uint32_t>();
  event.position = in->Get<replayer::OpPosition>();
  event.value = in->Get<int64_t>();
  if (event.kind == RankEventKind::kDeparted) {
    event.did = in->GetText();
    event.expected = in->GetText();
  }
  return event;
}

inline void PutAnswer(const RankAnswer& answer, WireWriter* out) {
  out->Put(answer.rank.value()).Put(answer.request).Put(answer.status);
  out->Put(answer.host_time_ns).Put(answer.value_ns).Put(answer.event_end_ns);
}

inline RankAnswer GetAnswer(WireReader* in) {
  RankAnswer answer;
  answer.rank = Rank(in->Get<uint32_t>());
  answer.request = in->Get<uint32_t>();
  answer.status = in->Get<int32_t>();
  answer.host_time_ns = in->Get<TimeNs>();
  answer.value_ns = in->Get<int64_t>();
  answer.event_end_ns = in->Get<TimeNs>();
  return answer;
}

}  // namespace prism::launch
