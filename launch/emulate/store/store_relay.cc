#include "launch/emulate/store/store_relay.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <vector>

#include <fmt/format.h>

#include "launch/emulate/store/store_server.h"
#include "launch/process/wire.h"

namespace prism::launch {
namespace {

constexpr int kRelayBacklog = 1024;

sockaddr_in SocketAddress(uint32_t address, uint16_t port) {
  sockaddr_in made = {};
  made.sin_family = AF_INET;
  made.sin_addr.s_addr = htonl(address);
  made.sin_port = htons(port);
  return made;
}

sockaddr* Generic(sockaddr_in* address) {
  return reinterpret_cast<sockaddr*>(address);
}

}  // namespace

Result<std::unique_ptr<StoreRelay>> StoreRelay::Open(int host, Send send) {
  auto relay = std::make_unique<StoreRelay>(uint16_t{0}, std::move(send));
  relay->host_ = host;
  relay->listener_ = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  sockaddr_in address = SocketAddress(INADDR_ANY, 0);
  socklen_t size = sizeof(address);
  if (relay->listener_ < 0 || bind(relay->listener_, Generic(&address), size) != 0 ||
      listen(relay->listener_, kRelayBacklog) != 0 ||
      getsockname(relay->listener_, Generic(&address), &size) != 0) {
    return EnvironmentLacks(
        fmt::format("cannot open a port for the ranks' store: {}", strerror(errno)));
  }
  relay->port_ = ntohs(address.sin_port);
  return relay;
}

StoreRelay::~StoreRelay() {
  for (const auto& [key, connection] : connections_) {
    close(connection.descriptor);
  }
  if (listener_ >= 0) {
    close(listener_);
  }
}

// `address`: with the first message of a connection, that of the store which the program meant.
void StoreRelay::Tell(const Key& key, uint32_t address, std::string_view bytes, bool ended) {
  send_(key.first,
        WireWriter().Put(key.second).Put(address).Put<uint8_t>(ended).PutText(bytes).Take());
}

void StoreRelay::Accept() {
  int descriptor = -1;
  while ((descriptor = accept4(listener_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
    sockaddr_in own = {};
    socklen_t size = sizeof(own);
    const bool known = getsockname(descriptor, Generic(&own), &size) == 0;
    const uint32_t address = known ? ntohl(own.sin_addr.s_addr) : 0;
    if (!IsLoopback(address)) {
      close(descriptor);
      continue;
    }
    const int on = 1;
    setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    const Key key = {host_, opened_++};
    connections_[key].descriptor = descriptor;
    Tell(key, address, {}, false);
  }
}

// The store tells processes of different hosts apart by the address that they come from.
void StoreRelay::Connect(const Key& key, uint32_t address) {
  Connection& connection = connections_[key];
  connection.descriptor = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  sockaddr_in from = SocketAddress(kFirstRelay + static_cast<uint32_t>(key.first), 0);
  sockaddr_in to = SocketAddress(address, port_);
  const int on = 1;
  setsockopt(connection.descriptor, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  const bool begun =
      bind(connection.descriptor, Generic(&from), sizeof(from)) == 0 &&
      (connect(connection.descriptor, Generic(&to), sizeof(to)) == 0 || errno == EINPROGRESS);
  if (!begun) {
    connection.ended = true;
    Tell(key, 0, {}, true);
  }
}

bool StoreRelay::Read(const Key& key, Connection* connection) {
  std::array<char, 65536> buffer;
  const ssize_t count = recv(connection->descriptor, buffer.data(), buffer.size(), 0);
  const bool ended = count == 0 || (count < 0 && errno != EAGAIN && errno != EINTR);
  if (count > 0 || ended) {
    Tell(key, 0, {buffer.data(), static_cast<size_t>(std::max<ssize_t>(count, 0))}, ended);
    connection->ended = connection->ended || ended;
    return true;
  }
  return false;
}

void StoreRelay::Write(Connection* connection) {
  while (!connection->unsent.empty()) {
    const ssize_t sent = send(connection->descriptor, connection->unsent.data(),
                              connection->unsent.size(), MSG_NOSIGNAL);
    if (sent < 0) {
      if (errno != EAGAIN && errno != EINTR && errno != ENOTCONN) {
        connection->unsent.clear();
      }
      return;
    }
    connection->unsent.erase(0, static_cast<size_t>(sent));
  }
}

bool StoreRelay::Step() {
  std::vector<pollfd> polled = {{listener_, POLLIN, 0}};  // ignored if negative
  for (const auto& [key, connection] : connections_) {
    polled.push_back({connection.descriptor,
                      static_cast<short>(connection.unsent.empty() ? POLLIN : POLLIN | POLLOUT),
                      0});
  }
  poll(polled.data(), polled.size(), 0);
  bool busy = false;
  auto next = polled.begin() + 1;
  for (auto& [key, connection] : connections_) {
    if ((next++)->revents != 0) {
      Write(&connection);
      while (!connection.ended && Read(key, &connection)) {
        busy = true;
      }
    }
  }
  if (polled[0].revents != 0) {
    Accept();
  }
  std::erase_if(connections_, [](const auto& entry) {
    const bool done = entry.second.ended && entry.second.unsent.empty();
    if (done) {
      close(entry.second.descriptor);
    }
    return done;
  });
  return busy;
}

void StoreRelay::Take(int host, std::string_view message) {
  WireReader in(message);
  const Key key = {host, in.Get<uint32_t>()};
  const auto address = in.Get<uint32_t>();
  const bool ended = in.Get<uint8_t>() != 0;
  if (address != 0) {
    Connect(key, address);
  }
  const auto found = connections_.find(key);
  if (found == connections_.end()) {
    return;  // this end has closed it meanwhile
  }
  found->second.unsent += in.GetText();
  found->second.ended = found->second.ended || ended;
  Write(&found->second);
}

}  // namespace prism::launch
