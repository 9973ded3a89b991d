#include "launch/emulate/store/store_server.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "launch/process/wire.h"

namespace prism::launch {
namespace {

constexpr uint32_t kLoopback = 0x7F000001;    // 127.0.0.1
constexpr uint32_t kFirstStore = 0x7F010001;  // 127.1.0.1
constexpr int kBacklog = 1024;

int64_t NowMs() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

std::string AddressText(uint32_t address) {
  return fmt::format("{}.{}.{}.{}", address >> 24U, (address >> 16U) & 0xFFU,
                     (address >> 8U) & 0xFFU, address & 0xFFU);
}

// The address of an end of a connection, in the machine's order; 0 when there is none.
uint32_t AddressOfEnd(int descriptor, decltype(getsockname)* get) {
  sockaddr_in address = {};
  socklen_t size = sizeof(address);
  return get(descriptor, reinterpret_cast<sockaddr*>(&address), &size) != 0
             ? 0
             : ntohl(address.sin_addr.s_addr);
}

}  // namespace

struct StoreServer::Store {
  explicit Store(AbsentAnswers* answers) : state(answers) {}

  StoreState state;
};

struct StoreServer::Connection {
  int descriptor = -1;
  uint32_t address = 0;
  StoreRequestParser parser;
  bool validated = false;
  uint32_t relay = 0;    // number of the host that it comes from; 0: this one
  uint64_t process = 0;  // with the host's number above it; 0: not known yet
  std::string unsent;
  int64_t waits_since_ms = 0;
  bool reported = false;  // its current wait
  bool dropped = false;
};

StoreServer::StoreServer(const StoreServerOptions& options)
    : options_(options), answers_(options.ranks) {
}

Result<std::unique_ptr<StoreServer>> StoreServer::Start(const StoreServerOptions& options) {
  std::unique_ptr<StoreServer> server(new StoreServer(options));
  server->listener_ = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  server->wake_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  // Any address, because stores differ by address; only loopback ones are accepted.
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_ANY);
  socklen_t size = sizeof(address);
  if (server->listener_ < 0 || server->wake_ < 0 ||
      bind(server->listener_, reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      listen(server->listener_, kBacklog) != 0 ||
      getsockname(server->listener_, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    return EnvironmentLacks(
        fmt::format("cannot open a port for the ranks' store: {}", strerror(errno)));
  }
  server->port_ = ntohs(address.sin_port);
  server->thread_ = std::thread([raw = server.get()] { raw->Serve(); });
  return server;
}

WrittenKeys StoreServer::End() {
  if (thread_.joinable()) {
    eventfd_write(wake_, 1);
    thread_.join();
  }
  WrittenKeys written;
  for (const auto& [address, store] : stores_) {
    store->state.AppendWritten(&written);
  }
  return written;
}

StoreServer::~StoreServer() {
  End();
  for (const auto& [descriptor, connection] : connections_) {
    close(descriptor);
  }
  for (const int descriptor : {listener_, wake_}) {
    if (descriptor >= 0) {
      close(descriptor);
    }
  }
}

Status StoreServer::status() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return status_;
}

std::vector<std::string> StoreServer::TakeReports() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return std::exchange(reports_, {});
}

void StoreServer::Report(std::string line) {
  const std::lock_guard<std::mutex> lock(mutex_);
  reports_.push_back(std::move(line));
}

StoreServer::Store& StoreServer::StoreAt(uint32_t address) {
  std::unique_ptr<Store>& store = stores_[address];
  if (store == nullptr) {
    store = std::make_unique<Store>(&answers_);
  }
  return *store;
}

void StoreServer::Accept() {
  int descriptor = -1;
  while ((descriptor = accept4(listener_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
    const uint32_t address = AddressOfEnd(descriptor, getsockname);
    if (!IsLoopback(address)) {
      close(descriptor);
      continue;
    }
    const int on = 1;
    setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    auto connection = std::make_unique<Connection>();
    connection->descriptor = descriptor;
    connection->address = address;
    connection->relay = std::max(AddressOfEnd(descriptor, getpeername), kFirstRelay) - kFirstRelay;
    connections_[descriptor] = std::move(connection);
  }
}

uint32_t StoreServer::AddressOf(const std::string& name) {
  const auto next = static_cast<uint32_t>(kFirstStore + addresses_.size());
  const uint32_t address = addresses_.try_emplace(name, next).first->second;
  names_[address] = name;
  return address;
}

// Requests of the shim to the server itself.
void StoreServer::TakeControl(Connection& connection, const StoreRequest& request, bool* taken) {
  *taken = !request.texts.empty() &&
           (request.texts[0].starts_with("/prism/") || request.texts[0].ends_with(kNameKey) ||
            request.texts[0].ends_with(kPatienceKey));
  if (!*taken) {
    return;
  }
  const std::string& key = request.texts[0];
  if (request.op == StoreOp::kSet && key == kProcessKey) {
    const std::string& text = request.texts[1];
    int32_t rank = 0;
    const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), rank);
    if (error == std::errc() && connection.process != 0) {
      rank_of_process_[connection.process] = rank;
    }
  } else if (request.op == StoreOp::kWait) {
    connection.unsent.push_back('\0');
  } else if (request.op == StoreOp::kGet && key.starts_with(kAddressKey)) {
    connection.unsent +=
        WireWriter().PutText(AddressText(AddressOf(key.substr(kAddressKey.size())))).Take();
  } else if (request.op == StoreOp::kGet && key.ends_with(kPatienceKey)) {
    const StorePatience& patience = options_.patience;
    connection.unsent +=
        WireWriter().PutText(fmt::format("{} {:d}", patience.polls, patience.gives_up)).Take();
  } else if (request.op == StoreOp::kGet) {
    connection.unsent += WireWriter().PutText(key.substr(0, key.rfind(kNameKey))).Take();
  }
}

Status StoreServer::Take(Connection& connection, const StoreRequest& request) {
  ++request_count_;
  if (!connection.validated) {
    connection.validated =
        request.op == StoreOp::kValidate && request.number == kStoreValidationNumber;
    return connection.validated ? OkStatus()
                                : BadFile("a client of the ranks' store is not a TCPStore client");
  }
  if (request.op == StoreOp::kPing) {
    connection.process = uint64_t{connection.relay} << 32U | static_cast<uint32_t>(request.number);
  }
  bool taken = false;
  TakeControl(connection, request, &taken);
  if (taken) {
    return OkStatus();
  }
  Store& store = StoreAt(connection.address);
  std::vector<StoreReply> replies;
  const Status status = store.state.Handle(connection.descriptor, request, &replies);
  connection.waits_since_ms = NowMs();
  connection.reported = false;
  if (request.op != StoreOp::kCheck) {
    last_change_ms_ = connection.waits_since_ms;  // watchdogs poll by kCheck for ever
  }
  Deliver(store, replies);
  return status;
}

void StoreServer::Deliver(const Store& /*store*/, const std::vector<StoreReply>& replies) {
  for (const StoreReply& reply : replies) {
    const auto found = connections_.find(reply.to);
    if (found != connections_.end()) {
      found->second->unsent += reply.bytes;
    }
  }
}

void StoreServer::Read(Connection& connection) {
  std::array<char, 65536> buffer;
  ssize_t count = 0;
  while (!connection.dropped &&
         (count = recv(connection.descriptor, buffer.data(), buffer.size(), 0)) > 0) {
    connection.parser.Append({buffer.data(), static_cast<size_t>(count)});
    for (bool more = true; more && !connection.dropped;) {
      Result<std::optional<StoreRequest>> request = connection.parser.Next();
      more = request.ok() && request->has_value();
      const Status status = more ? Take(connection, **request) : request.status();
      if (!status.ok()) {
        Report(status.message() + Describe(connection, {}));
        connection.dropped = true;
      }
    }
  }
  if (count == 0 || (count < 0 && errno != EAGAIN && errno != EINTR)) {
    connection.dropped = true;
  }
}

void StoreServer::Flush(Connection& connection) {
  while (!connection.unsent.empty()) {
    const ssize_t sent = send(connection.descriptor, connection.unsent.data(),
                              connection.unsent.size(), MSG_NOSIGNAL);
    if (sent < 0) {
      connection.dropped = connection.dropped || (errno != EAGAIN && errno != EINTR);
      return;
    }
    connection.unsent.erase(0, static_cast<size_t>(sent));
  }
}

// The keys in question, which rank and process it is, and which store.
std::string StoreServer::Describe(const Connection& connection,
                                  const std::vector<std::string>& keys) const {
  const auto rank = rank_of_process_.find(connection.process);
  const auto name = names_.find(connection.address);
  std::string text =
      fmt::format(" ({}process {}, store {})",
                  rank == rank_of_process_.end() ? "" : fmt::format("rank {}, ", rank->second),
                  static_cast<uint32_t>(connection.process),
                  name == names_.end() ? AddressText(connection.address) : name->second);
  if (!keys.empty()) {
    text = fmt::format("{}{}, pattern {}{}", keys.front(),
                       keys.size() == 1 ? "" : fmt::format(" and {} more", keys.size() - 1),
                       AbsentAnswers::PatternOf(keys.front()), text);
  }
  return text;
}

// Looks for long waits, and for the end of all progress: every present process has connected, and
// all that remain wait.
void StoreServer::WatchWaits() {
  const int64_t now = NowMs();
  std::set<uint64_t> alive;
  std::set<uint64_t> waiting;
  std::string blocked;
  for (auto& [descriptor, connection] : connections_) {
    if (connection->process == 0 || connection->address == kLoopback) {
      continue;
    }
    alive.insert(connection->process);
    const auto& waits = StoreAt(connection->address).state.waiting();
    const auto found = waits.find(descriptor);
    if (found == waits.end()) {
      continue;
    }
    if (options_.ranks.present < options_.ranks.world_size &&
        found->second.front().find("/rpc_prefix_") != std::string::npos) {
      const std::lock_guard<std::mutex> lock(mutex_);
      status_ = RunFailed(fmt::format(
          "torch.distributed.rpc: its workers call functions of each other, so that all {} ranks "
          "would have to run, not {} of them; ranks that exchange by NCCL or gloo need not",
          options_.ranks.world_size, options_.ranks.present));
      return;
    }
    waiting.insert(connection->process);
    const std::string line = "waits for " + Describe(*connection, found->second);
    blocked += "\n" + line;
    if (!connection->reported && now - connection->waits_since_ms >= options_.blocked_after_ms) {
      connection->reported = true;
      Report(line);
    }
  }
  const bool all_came =
      static_cast<int32_t>(rank_of_process_.size()) >= options_.ranks.present && !alive.empty();
  if (all_came && alive == waiting && now - last_change_ms_ >= 2 * options_.blocked_after_ms) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (status_.ok()) {
      status_ = RunFailed(
          "every sandbox rank waits for a key that no sandbox rank has set and that no absent rank "
          "is known to set:" +
          blocked);
    }
  }
}

void StoreServer::Serve() {
  constexpr int kLookMs = 250;  // for waits that last
  std::vector<pollfd> polled;
  while (true) {
    polled.clear();
    polled.push_back({wake_, POLLIN, 0});
    polled.push_back({listener_, POLLIN, 0});
    bool anybody_waits = false;
    for (const auto& [descriptor, connection] : connections_) {
      const bool unsent = !connection->unsent.empty();
      polled.push_back({descriptor, static_cast<short>(unsent ? POLLIN | POLLOUT : POLLIN), 0});
    }
    for (const auto& [address, store] : stores_) {
      anybody_waits = anybody_waits || !store->state.waiting().empty();
    }
    poll(polled.data(), polled.size(), anybody_waits ? kLookMs : -1);
    if (polled[0].revents != 0) {
      return;
    }
    for (size_t i = 2; i < polled.size(); ++i) {
      if (polled[i].revents != 0) {
        Read(*connections_.at(polled[i].fd));
      }
    }
    for (const auto& [descriptor, connection] : connections_) {
      Flush(*connection);
    }
    std::erase_if(connections_, [this](const auto& entry) {
      if (entry.second->dropped) {
        StoreAt(entry.second->address).state.Forget(entry.first);
        close(entry.first);
      }
      return entry.second->dropped;
    });
    if (polled[1].revents != 0) {
      Accept();
    }
    if (anybody_waits) {
      WatchWaits();
    }
  }
}

}  // namespace prism::launch
