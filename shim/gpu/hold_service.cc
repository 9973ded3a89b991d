#include "shim/gpu/hold_service.h"

#include "shim/channel/channel.h"

namespace prism::shim {

bool HoldService::Step() {
  events_.clear();
  bool busy = device_->Poll(&events_);
  for (const HoldEvent& event : events_) {
    channel::Record record = {};
    record.kind = channel::RecordKind::kHold;
    record.hold = {event.time_ns, event.sequence, event.hold_stream,
                   static_cast<uint8_t>(event.ended ? 1 : 0)};
    emit_(record);
    if (!event.ended) {
      waiting_.push_back({event.hold_stream, event.sequence});
    }
  }
  std::erase_if(waiting_, [&](const Waiting& hold) {
    uint64_t time_ns = 0;
    const bool known = may_end_(hold.hold_stream, hold.sequence) &&
                       channel::TakeDeadline(header_, hold.hold_stream, hold.sequence, &time_ns);
    if (known) {
      device_->SetDeadline(hold.hold_stream, hold.sequence, time_ns);
      busy = true;
    }
    return known;
  });
  return busy;
}

}  // namespace prism::shim
