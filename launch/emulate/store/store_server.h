// The rendezvous of a run's sandbox ranks: a server of the TCPStore protocol on the loopback
// interface, in a thread of the process that owns the run. Present ranks exchange real values
// through it; absent ones are answered for (absent_answers.h).
//
// Every (host, port) or file that a program names is a separate store. A client first asks the
// store at 127.0.0.1 for the key kAddressKey + name and gets the address, 127.1.x.y, at which that
// store answers; the port is the server's. shim/rendezvous does this in the program's process. It
// also sets kProcessKey, so that messages can name the rank, and reads kNameKey to learn how the
// framework calls a group.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "graph/base/status.h"
#include "launch/emulate/store/absent_answers.h"
#include "launch/emulate/store/store_state.h"

namespace prism::launch {

// Keys between the shim and the server, as they come over the wire.
inline constexpr std::string_view kAddressKey = "/prism/address/";  // + name of a store
inline constexpr std::string_view kProcessKey = "/prism/process";   // "<rank> <process>"
// After a prefix: returns the prefix; or StorePatience as "<polls> <0 or 1>".
inline constexpr std::string_view kNameKey = "/prism/name";
inline constexpr std::string_view kPatienceKey = "/prism/patience";

// Clients of other hosts come from this address plus the host's number (store_relay.h).
inline constexpr uint32_t kFirstRelay = 0x7F020000;  // 127.2.0.0

// Of an address in the machine's order.
inline bool IsLoopback(uint32_t address) {
  return address >> 24U == 0x7F;
}

// How long a program that is checked waits for keys that nobody has set.
struct StorePatience {
  int32_t polls = 10'000;  // questions in a row whether a key is there, until it waits for it
  bool gives_up = false;   // a wait ends with its time-out, at once
};

struct StoreServerOptions {
  AbsentRanks ranks;
  // A wait for a key of unknown pattern is reported after this long, and ends the run when all
  // present processes wait and no client has sent anything for as long again.
  int64_t blocked_after_ms = 10'000;
  StorePatience patience = {};
};

class StoreServer {
 public:
  // kEnvironment when no port is available.
  static Result<std::unique_ptr<StoreServer>> Start(const StoreServerOptions& options);
  ~StoreServer();
  StoreServer(const StoreServer&) = delete;
  StoreServer& operator=(const StoreServer&) = delete;

  [[nodiscard]] uint16_t port() const { return port_; }

  // kRunFailed, naming keys, ranks and processes, once all present processes are blocked; OK
  // before.
  [[nodiscard]] Status status() const;

  // Ends the server: what its clients have written.
  WrittenKeys End();

  // Lines about waits that last, and clients that broke the protocol; each is returned once.
  std::vector<std::string> TakeReports();

  [[nodiscard]] int64_t request_count() const { return request_count_.load(); }

 private:
  struct Store;
  struct Connection;

  explicit StoreServer(const StoreServerOptions& options);

  // Everything below runs in the server's thread.
  void Serve();
  void Accept();
  void Read(Connection& connection);
  Status Take(Connection& connection, const StoreRequest& request);
  void TakeControl(Connection& connection, const StoreRequest& request, bool* taken);
  void Deliver(const Store& store, const std::vector<StoreReply>& replies);
  void Flush(Connection& connection);
  Store& StoreAt(uint32_t address);
  uint32_t AddressOf(const std::string& name);
  void WatchWaits();
  std::string Describe(const Connection& connection, const std::vector<std::string>& keys) const;
  void Report(std::string line);

  StoreServerOptions options_;
  AbsentAnswers answers_;
  int listener_ = -1;
  int wake_ = -1;  // eventfd: ends the thread
  uint16_t port_ = 0;
  std::map<int, std::unique_ptr<Connection>> connections_;  // by descriptor
  std::map<uint32_t, std::unique_ptr<Store>> stores_;       // by address
  std::map<std::string, uint32_t, std::less<>> addresses_;  // by name of the store
  std::map<uint32_t, std::string> names_;                   // by address
  std::map<uint64_t, int32_t> rank_of_process_;
  int64_t last_change_ms_ = 0;
  std::atomic<int64_t> request_count_{0};

  mutable std::mutex mutex_;  // the two below
  Status status_;
  std::vector<std::string> reports_;

  std::thread thread_;  // last: uses all of the above
};

}  // namespace prism::launch
