// The messages between workers and process 0 while sandbox ranks run in virtual time.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graph/base/ids.h"
#include "graph/base/time.h"
#include "launch/process/wire.h"
#include "replayer/engine/op_position.h"

namespace prism::launch {

// The position of an event that is not in the graph. No time passes before the first iteration, and
// after the last one of the emulation only what is under way ends.
constexpr replayer::OpPosition kBeforeFirst = -1;
constexpr replayer::OpPosition kBehindLast = -2;

enum class RankEventKind : uint8_t {
  kIssued,       // position: everything before it has been issued
  kHostGap,      // value: host time that is not in the graph, ns
  kHostWait,     // the host waited for an event; the graph has no such wait there
  kAskHostTime,  // request: a synchronisation call waits; position: for this op, that recorded an
                 // event, else negative. Afterwards everything that ends by then is complete for
                 // the host, even where the graph has no such wait (for events of an earlier
                 // iteration, or that were complete while the rank was recorded) and host time does
                 // not move
  kAskEvent,     // request; position: the op that recorded the event, negative: it is complete;
                 // value: host time of a poll when nothing else can advance, 0: a watching thread;
                 // loop_ns: host time that passes if the event is known to end later
  kAskElapsed,   // request; position and value: ops that recorded start and end
  kDeparted,     // did, expected: the rank's op and the graph's
  kArrived,      // on a real GPU: value: its timer when a stream reached the op at position, ns
  kPassed,       // on a real GPU: value: its timer when the stream left the op, ns
};

struct RankEvent {
  RankEventKind kind = RankEventKind::kIssued;
  Rank rank;
  uint32_t request = 0;
  replayer::OpPosition position = -1;
  int64_t value = 0;
  DurationNs loop_ns = 0;
  std::string did = {};
  std::string expected = {};
};

struct RankAnswer {
  Rank rank;
  uint32_t request = 0;
  int32_t status = 0;  // channel::Answer::status
  TimeNs host_time_ns = 0;
  int64_t value_ns = 0;
};

// When an op of a rank that records an event ends: sent ahead of time, because programs poll events
// often.
struct EventEnd {
  Rank rank;
  replayer::OpPosition position = 0;
  TimeNs end_ns = 0;
};

// Until when a stream of a rank on a real GPU is held at an op, by that GPU's timer.
struct HoldEnd {
  Rank rank;
  replayer::OpPosition position = 0;
  int64_t gpu_ns = 0;
};

// What process 0 reports to one worker.
struct AnswerBatch {
  std::vector<EventEnd> ends;
  std::vector<RankAnswer> answers;
  std::vector<HoldEnd> holds;
};

inline void PutEvent(const RankEvent& event, WireWriter* out) {
  out->Put(event.kind).Put(event.rank.value()).Put(event.request).Put(event.position);
  out->Put(event.value).Put(event.loop_ns);
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
  event.loop_ns = in->Get<DurationNs>();
  if (event.kind == RankEventKind::kDeparted) {
    event.did = in->GetText();
    event.expected = in->GetText();
  }
  return event;
}

inline void PutBatch(const AnswerBatch& batch, WireWriter* out) {
  out->Put<uint64_t>(batch.ends.size()).Put<uint64_t>(batch.answers.size());
  out->Put<uint64_t>(batch.holds.size());
  for (const EventEnd& end : batch.ends) {
    out->Put(end.rank.value()).Put(end.position).Put(end.end_ns);
  }
  for (const RankAnswer& answer : batch.answers) {
    out->Put(answer.rank.value()).Put(answer.request).Put(answer.status);
    out->Put(answer.host_time_ns).Put(answer.value_ns);
  }
  for (const HoldEnd& hold : batch.holds) {
    out->Put(hold.rank.value()).Put(hold.position).Put(hold.gpu_ns);
  }
}

inline AnswerBatch GetBatch(WireReader* in) {
  AnswerBatch batch;
  batch.ends.resize(in->Get<uint64_t>());
  batch.answers.resize(in->Get<uint64_t>());
  batch.holds.resize(in->Get<uint64_t>());
  for (EventEnd& end : batch.ends) {
    end.rank = Rank(in->Get<uint32_t>());
    end.position = in->Get<replayer::OpPosition>();
    end.end_ns = in->Get<TimeNs>();
  }
  for (RankAnswer& answer : batch.answers) {
    answer.rank = Rank(in->Get<uint32_t>());
    answer.request = in->Get<uint32_t>();
    answer.status = in->Get<int32_t>();
    answer.host_time_ns = in->Get<TimeNs>();
    answer.value_ns = in->Get<int64_t>();
  }
  for (HoldEnd& hold : batch.holds) {
    hold.rank = Rank(in->Get<uint32_t>());
    hold.position = in->Get<replayer::OpPosition>();
    hold.gpu_ns = in->Get<int64_t>();
  }
  return batch;
}

}  // namespace prism::launch
