// The ranks' store on hosts other than its own: a port on the loopback interface of each, whose
// connections are carried as messages to the store's host, where they become connections to the
// store. Both ends are this class; who sends the messages is the caller's business.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "graph/base/status.h"

namespace prism::launch {

class StoreRelay {
 public:
  using Send = std::function<void(int host, std::string message)>;

  // Where the store is: `port` is the store's.
  StoreRelay(uint16_t port, Send send) : port_(port), send_(std::move(send)) {}
  // Elsewhere: opens a port, and sends all to `host`. kEnvironment when none is available.
  static Result<std::unique_ptr<StoreRelay>> Open(int host, Send send);
  ~StoreRelay();
  StoreRelay(const StoreRelay&) = delete;
  StoreRelay& operator=(const StoreRelay&) = delete;

  [[nodiscard]] uint16_t port() const { return port_; }

  // Carries what has come over the connections. True: something had. Never waits.
  bool Step();

  // A message of the other end on that host.
  void Take(int host, std::string_view message);

 private:
  using Key = std::pair<int, uint32_t>;  // host of the other end, number there
  struct Connection {
    int descriptor = -1;
    std::string unsent;
    bool ended = false;  // by the other end, once all is sent
  };

  void Accept();
  void Connect(const Key& key, uint32_t address);
  bool Read(const Key& key, Connection* connection);
  void Write(Connection* connection);
  void Tell(const Key& key, uint32_t address, std::string_view bytes, bool ended);

  uint16_t port_;
  Send send_;
  int listener_ = -1;
  int host_ = -1;  // of the store; -1: this one
  uint32_t opened_ = 0;
  std::map<Key, Connection> connections_;
};

}  // namespace prism::launch
