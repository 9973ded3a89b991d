// Where the sandbox ranks of one host meet in an emulation: the memory that they share, and a port
// at which the run's store answers. The first worker of each host has one. Between hosts it keeps
// the memory equal and carries the store's connections (exchange_mirror.h,
// launch/emulate/store/store_relay.h), by messages to those of the other hosts.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "graph/base/status.h"
#include "launch/emulate/run/exchange_mirror.h"
#include "launch/emulate/run/messages.h"
#include "launch/emulate/sandbox/shared_memory.h"
#include "launch/emulate/store/store_relay.h"
#include "launch/process/mpi_session.h"

namespace prism::launch {

class HostMeeting {
 public:
  // `session` must outlive it. kEnvironment if there is no memory or port for it.
  static Result<std::unique_ptr<HostMeeting>> Open(const MeetMessage& meet, MpiSession& session);

  [[nodiscard]] MeetingMessage Describe() const;

  // Carries what has moved. True: something had. Never waits.
  bool Step();

  // What follows the kind of a message of another host's.
  void Take(MessageKind kind, WireReader* message);

 private:
  HostMeeting(const MeetMessage& meet, MpiSession& session);

  void Tell(MessageKind kind, int host, std::string_view body);

  MeetMessage meet_;
  MpiSession& session_;
  SharedMemory memory_;
  shim::ExchangeArena arena_;
  std::unique_ptr<ExchangeMirror> mirror_;  // null with one host
  std::unique_ptr<StoreRelay> relay_;       // null with one host, or without a store
};

}  // namespace prism::launch
