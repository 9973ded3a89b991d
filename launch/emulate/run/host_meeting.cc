#include "launch/emulate/run/host_meeting.h"

#include <utility>

#include "launch/emulate/run/run_context.h"

namespace prism::launch {

HostMeeting::HostMeeting(const MeetMessage& meet, MpiSession& session)
    : meet_(meet), session_(session), memory_("prism-exchange", kExchangeBytes) {
}

Result<std::unique_ptr<HostMeeting>> HostMeeting::Open(const MeetMessage& meet,
                                                       MpiSession& session) {
  std::unique_ptr<HostMeeting> made(new HostMeeting(meet, session));
  HostMeeting* const self = made.get();
  const bool several = meet.leaders.size() > 1;
  if (made->memory_.valid() && several) {
    made->arena_ = shim::ExchangeArena::MapPath(made->memory_.Path().c_str());
  }
  if (!made->memory_.valid() || (several && !made->arena_.valid())) {
    return EnvironmentLacks("cannot create shared memory for data between sandbox ranks");
  }
  if (!several) {
    return made;
  }
  made->mirror_ =
      std::make_unique<ExchangeMirror>(&made->arena_, static_cast<int>(meet.leaders.size()),
                                       meet.host, [self](int host, const std::string& body) {
                                         self->Tell(MessageKind::kExchange, host, body);
                                       });
  const auto to_store = [self](int host, const std::string& body) {
    self->Tell(MessageKind::kStore, host, body);
  };
  if (meet.store_port != 0 && meet.host == 0) {
    made->relay_ = std::make_unique<StoreRelay>(meet.store_port, to_store);
  } else if (meet.store_port != 0) {
    PRISM_ASSIGN_OR_RETURN(made->relay_, StoreRelay::Open(0, to_store));
  }
  return made;
}

MeetingMessage HostMeeting::Describe() const {
  return {meet_.number, meet_.host, memory_.Path(),
          relay_ == nullptr ? meet_.store_port : relay_->port()};
}

void HostMeeting::Tell(MessageKind kind, int host, std::string_view body) {
  session_.Send(meet_.leaders[static_cast<size_t>(host)],
                WireWriter().Put(kind).Put(meet_.number).Put(meet_.host).PutText(body).Take());
}

bool HostMeeting::Step() {
  const bool exchanged = mirror_ != nullptr && mirror_->Step();
  return (relay_ != nullptr && relay_->Step()) || exchanged;
}

void HostMeeting::Take(MessageKind kind, WireReader* message) {
  if (message->Get<uint32_t>() != meet_.number) {
    return;  // of an emulation that was abandoned
  }
  const int host = message->Get<int32_t>();
  const std::string_view body = message->GetText();
  if (kind == MessageKind::kExchange) {
    mirror_->Take(host, body);
  } else if (relay_ != nullptr) {
    relay_->Take(host, body);
  }
}

}  // namespace prism::launch
